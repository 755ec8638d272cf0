"""Spark's own plans and expressions, taken apart and put together as objects, never as text.

A combination of queries is made of the very expressions that Spark's analyser gave for each of
them: nothing is written out and parsed again, so there is nothing that a string literal, a comment
or a name could be mistaken for. Columns are identified by Spark's expression ids. Where the same
column has different ids in two queries, a projection or ``renamed`` aligns them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession

#: Proxies of objects in the JVM: a ``LogicalPlan``, an ``Expression``, a Scala ``Seq``.
Plan: TypeAlias = Any
Expr: TypeAlias = Any
Seq: TypeAlias = Any

_CATALYST = "org.apache.spark.sql.catalyst"
_EXPRESSIONS = f"{_CATALYST}.expressions"


class Catalyst:
    """Makes plans and expressions in the JVM of one session's Spark application."""

    def __init__(self, session: SparkSession) -> None:
        context: Any = session.sparkContext
        self._jvm = context._jvm
        self._session = session._jsparkSession
        self._dataset = self.scala_object("org.apache.spark.sql.classic.Dataset")
        self._literals = self.scala_object(f"{_EXPRESSIONS}.Literal")
        self._ids = self.scala_object(f"{_EXPRESSIONS}.NamedExpression")
        self._options = self.scala_object("scala.Option")
        self._to_seq: Callable[[list[Any]], Seq] = self._jvm.PythonUtils.toSeq
        self._longs: dict[int, Expr] = {}
        self._types = self.scala_object("org.apache.spark.sql.types.DataType")

    def scala_object(self, name: str) -> Any:
        return getattr(getattr(self._jvm, f"{name}$"), "MODULE$")

    # Plans

    def frame(self, plan: Plan, session: SparkSession) -> DataFrame:
        """The rows of a plan, which is analysed in the session if it is not analysed yet."""
        return DataFrame(self._dataset.ofRows(session._jsparkSession, plan), session)

    def project(self, columns: Iterable[Expr] | Seq, child: Plan) -> Plan:
        """A projection; a ``Seq`` that is used again and again need be made only once."""
        made = columns if isinstance(columns, JavaObject) else self.seq(columns)
        return self._plan("Project", made, child)

    def filter(self, condition: Expr, child: Plan) -> Plan:
        return self._plan("Filter", condition, child)

    def named(self, plan: Plan, name: str) -> Plan:
        """The plan under the name of a table."""
        return self.scala_object(f"{_CATALYST}.plans.logical.SubqueryAlias").apply(name, plan)

    def aliased(self, plan: Plan, attributes: Sequence[Expr]) -> Plan:
        """The plan's columns, in their order, under the names and ids of these attributes."""
        output = listed(plan.output())
        assert len(output) == len(attributes)
        pairs = zip(output, attributes, strict=True)
        return self.project([self.alias(o, a.name(), a.exprId()) for o, a in pairs], plan)

    def inlined(self, plan: Plan) -> Plan:
        """An analysed plan with the parts of WITH written in place of their names."""
        parts: dict[int, Plan] = {}

        def placed(node: Plan) -> Plan | None:
            if kind(node) == "CTERelationRef" and node.cteId() in parts:
                return self.aliased(parts[node.cteId()], listed(node.output()))
            if kind(node) != "WithCTE":
                return None
            for part in listed(node.cteDefs()):  # a later one may name those before it
                parts[part.id()] = replaced(part.child(), placed, self.seq)
            return replaced(node.plan(), placed, self.seq)

        return replaced(plan, placed, self.seq)

    def renamed(self, node: Plan, old: Sequence[Expr], new: Sequence[Expr]) -> Plan:
        """The node with other attributes in its own expressions; its children stay."""
        pairs = [getattr(self._jvm, "scala.Tuple2")(o, n) for o, n in zip(old, new, strict=True)]
        attributes = self.scala_object(f"{_EXPRESSIONS}.AttributeMap")
        return node.rewriteAttrs(attributes.apply(self.seq(pairs)))

    # Expressions

    def alias(self, expression: Expr, name: str, expr_id: Any = None) -> Expr:
        """The expression under a name; with an id, under an identity that exists already."""
        expr_id = self.new_id() if expr_id is None else expr_id
        none = self._options.apply(None)
        return self.make("Alias", expression, name, expr_id, self.seq([]), none, self.seq([]))

    def new_id(self) -> Any:
        return self._ids.newExprId()

    def make(self, kind: str, *arguments: Any) -> Expr:
        """An expression of a class in Spark's own package of expressions."""
        return getattr(self._jvm, f"{_EXPRESSIONS}.{kind}")(*arguments)

    def long(self, number: int) -> Expr:
        # py4j would send a small number as a Java int, whatever its type was.
        if number not in self._longs:
            parser = self._session.sessionState().sqlParser()
            self._longs[number] = parser.parseExpression(f"{number}L")
        return self._longs[number]

    def true(self) -> Expr:
        return self._literals.TrueLiteral()

    def false(self) -> Expr:
        return self._literals.FalseLiteral()

    def null(self, like: Expr) -> Expr:
        """A null of another expression's type."""
        return self._literals.create(None, like.dataType())

    def type(self, ddl: str) -> Any:
        return self._types.fromDDL(ddl)

    def cast(self, expression: Expr, to: Any) -> Expr:
        return self.make("Cast", expression, to, self.some(None))

    def attribute(self, name: str, like: Expr) -> Expr:
        """A column of another expression's type that no plan has yet."""
        return self.alias(self.null(like), name).toAttribute()

    def own(self, expression: Expr) -> Expr:
        """A copy that shares nothing: some expressions keep a buffer, and workers are threads."""
        return self._jvm.org.apache.commons.lang3.SerializationUtils.clone(expression)

    def ordered(self, expression: Expr) -> Expr:
        """The expression with sums and products computed in the order in which they are written.

        Spark takes ``a + (b + c)`` and ``(a + b) + c`` for the same expression and computes one of
        them for both. In one query that is its choice; between queries it would give one of them
        the rounding, or the overflow, of the other.
        """
        if not expression.containsPattern(self.pattern("BINARY_ARITHMETIC")):
            return expression
        children = listed(expression.children())
        changed = [self.ordered(child) for child in children]
        name = kind(expression)
        if name in ("Add", "Multiply"):
            tagged = (kind(child) == name for child in children)
            changed = [
                self.make("KnownNullable", child) if tag else child
                for child, tag in zip(changed, tagged, strict=True)
            ]
        if all(a is b for a, b in zip(children, changed, strict=True)):
            return expression
        return expression.withNewChildren(self.seq(changed))

    def any_of(self, conditions: Sequence[Expr]) -> Expr:
        return self.joined("Or", conditions)

    def all_of(self, conditions: Sequence[Expr]) -> Expr:
        return self.joined("And", conditions)

    def aggregate(self, function: Expr, only: Expr | None = None) -> Expr:
        """A call of an aggregate function, over the rows that meet a condition."""
        call = function.toAggregateExpression()
        return call if only is None else self.filtered(call, only)

    def filtered(self, call: Expr, only: Expr) -> Expr:
        """The call of an aggregate function with one more condition in its FILTER."""
        known = call.filter()
        condition = self.all_of([only, known.get()]) if known.isDefined() else only
        function, mode, distinct = call.aggregateFunction(), call.mode(), call.isDistinct()
        return call.copy(function, mode, distinct, self.some(condition), call.resultId())

    def with_function(self, call: Expr, function: Expr) -> Expr:
        """The call of another aggregate function over the same rows."""
        return call.copy(function, call.mode(), call.isDistinct(), call.filter(), self.new_id())

    def copied(self, node: Plan, *first: Any) -> Plan:
        """The node with its first fields replaced; how many more it has depends on Spark."""
        rest = [node.productElement(i) for i in range(len(first), node.productArity())]
        return node.copy(*first, *rest)

    def some(self, value: Any) -> Any:
        return self._options.apply(value)

    def seq(self, items: Iterable[Any]) -> Seq:
        return self._to_seq(list(items))

    def key(self, expression: Expr, output: Seq) -> Any:
        """Equal, in the JVM, for equal expressions over equal columns, whatever their ids."""
        columns = getattr(self._jvm, f"{_EXPRESSIONS}.package$AttributeSeq")(output)
        bind = self.scala_object(f"{_EXPRESSIONS}.BindReferences")
        return bind.bindReference(expression, columns, True).canonicalized()

    def pattern(self, name: str) -> Any:
        """One of the patterns by which Spark finds kinds of nodes in a tree."""
        return getattr(getattr(self._jvm, f"{_CATALYST}.trees.TreePattern"), name)()

    def numbering(self) -> Any:
        """A map in the JVM, which compares keys as Spark does."""
        return getattr(self._jvm, "java.util.HashMap")()

    def _plan(self, kind: str, *arguments: Any) -> Plan:
        return getattr(self._jvm, f"{_CATALYST}.plans.logical.{kind}")(*arguments)

    def joined(self, kind: str, conditions: Sequence[Expr]) -> Expr:
        """As a balanced tree: Spark walks expressions by recursion."""
        if len(conditions) == 1:
            return conditions[0]
        half = len(conditions) // 2
        left, right = conditions[:half], conditions[half:]
        return self.make(kind, self.joined(kind, left), self.joined(kind, right))


def kind(node: Any) -> str:
    """The class of an expression or a plan."""
    return str(node.getClass().getSimpleName())


def listed(seq: Seq) -> list[Any]:
    return [seq.apply(i) for i in range(seq.size())]


def conjuncts(condition: Expr) -> Iterator[Expr]:
    """The parts of a condition that must all hold."""
    if kind(condition) == "And":
        yield from conjuncts(condition.left())
        yield from conjuncts(condition.right())
    else:
        yield condition


def nodes(tree: Any) -> Iterator[Any]:
    """A plan or an expression and all below it."""
    yield tree
    for child in listed(tree.children()):
        yield from nodes(child)


def replaced(tree: Any, new: Callable[[Any], Any | None], seq: Callable[[list[Any]], Seq]) -> Any:
    """The tree with every topmost node replaced for which ``new`` gives another."""
    found = new(tree)
    if found is not None:
        return found
    children = listed(tree.children())
    changed = [replaced(child, new, seq) for child in children]
    if all(a is b for a, b in zip(children, changed, strict=True)):
        return tree
    return tree.withNewChildren(seq(changed))


def ids(attributes: Iterable[Expr]) -> list[int]:
    return [int(a.exprId().id()) for a in attributes]


def positions(output: Sequence[Expr]) -> Mapping[int, int]:
    """Where each attribute stands, by its id."""
    return {number: at for at, number in enumerate(ids(output))}


def views_in(plan: Plan) -> set[str]:
    """Names of all views in an analysed plan, in lower case."""
    trees = [plan, *listed(plan.subqueriesAll())]
    found = [node for tree in trees for node in nodes(tree) if node.nodeName() == "View"]
    return {view.desc().identifier().table().lower() for view in found}
