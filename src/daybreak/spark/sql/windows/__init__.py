"""Windows over event time: the log is the state.

A window query keeps nothing but one number, the time up to which its windows are emitted. What it
computes is a function of that number, the next one, and the segments of the log; so it survives
crashes and any schedule with the same rows.
"""
