"""What to do about a guard that keeps failing: one sentence for each kind of guard."""

from __future__ import annotations

from framehook.guards.guard import Check, Guard

_ONE_EACH = (
    "compile one function for each (functools.partial), or raise config.max_entries_per_code if there are few"
)

_BY_SUBJECT: tuple[tuple[str, str], ...] = (
    ("size of ", "pad to a few sizes, or say framehook.mark_dynamic(t, dim) or compile(dynamic=True)"),
    ("number of dimensions of ", "reshape to one number of dimensions before the call"),
    ("dtype of ", "convert to one dtype before the call"),
    ("device of ", "move to one device before the call, or compile one function for each device"),
    (
        "requires_grad of ",
        "call it always under torch.no_grad(), or never; or detach() the tensor before the call",
    ),
    ("stride of ", "call .contiguous() on it before the call"),
    (
        "dispatch keys of ",
        "pass tensors of one kind: of one class, layout and device, all of them views or none",
    ),
)

_BY_CHECK: dict[Check, str] = {
    Check.TYPE: f"pass objects of one type; for several, {_ONE_EACH}",
    Check.IDENTITY: "make the object once, outside of the function, and pass the same one at each call (a lambda or "
    "functools.partial made for each call is another object each time)",
    Check.NOT_NONE: f"pass it always or never; for both, {_ONE_EACH}",
    Check.LENGTH: "pass one length, or one tensor in place of many (torch.stack)",
    Check.KEYS: "use the same keys, in one order, at each call",
    Check.MEMBERS: "use the same members at each call, or a tuple",
    Check.HAS_KEY: "set the attribute or key before the first call, and keep it",
    Check.NO_KEY: "set the attribute or key before the first call, and keep it",
    Check.NO_CLASS_ATTR: "finish changing the class before the first call",
    Check.STATE: f"call it always under the same modes (grad, inference, autocast, default dtype); else {_ONE_EACH}",
    Check.SAME: "pass the same object twice always or never: x.clone() makes another one",
    Check.DISTINCT: "pass different objects at each call: x.clone() makes another one",
    Check.DISJOINT: "pass inputs that share no memory: x.clone() makes a copy",
    Check.OVERLAPS: "pass inputs that share no memory: x.clone() makes a copy",
    Check.ENVIRONMENT: "set the environment variable before the first call, and leave it",
}

_NUMBER = "pass it as a tensor (torch.tensor(value)), which may change freely; count outside of the function"


def cure(guard: Guard | None, subject: str) -> str:
    """What to do when this guard keeps failing; `subject` is what it is about, as `words.explain` says it."""
    for beginning, advice in _BY_SUBJECT:
        if subject.startswith(beginning):
            return advice
    if guard is None:
        return "pass the same kind of arguments at each call"
    if guard.check is Check.EQUALS:
        return (
            _NUMBER if type(guard.constant) in (int, float) else f"keep the value; for several, {_ONE_EACH}"
        )
    return _BY_CHECK.get(guard.check, "keep it as it is between calls")


__all__ = ["cure"]
