"""Bandwidth for those who need it: schedulers for links with classes, deadlines and minima.

Every scheduler (`registry.SCHEDULERS`) runs unchanged in the simulator (`scenario.simulate`)
and on a real link (`sender.LinkSender`, `receiver.LinkReceiver`).
"""
