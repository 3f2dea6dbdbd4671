"""The kinds of graph breaks: stable words for programs, and what to do about each.

`docs/graph-breaks.md` has an example of each and the rewrite that avoids it.
"""

from __future__ import annotations

from typing import NamedTuple


class BreakKind(NamedTuple):
    """One kind: what it is about, and what to do where the break itself has no better advice."""

    summary: str
    hint: str


KINDS: dict[str, BreakKind] = {
    "attribute": BreakKind(
        "an attribute that is served by C code, or by tricks with `__dict__`",
        "read it outside of the compiled function and pass the value",
    ),
    "autograd": BreakKind(
        "gradients, `grad_fn` and leaf-ness of tensors of the graph",
        "read them after the compiled function has returned",
    ),
    "call": BreakKind(
        "C code, or a package, that is not traced and not known to be an operation",
        "call it outside, or say framehook.allow_in_graph(fn) if it only computes tensors from tensors",
    ),
    "class_body": BreakKind("a class is defined in the frame", "define it outside of the function"),
    "container": BreakKind(
        "a container whose order or keys are not known before it exists, or that is a `__dict__` as well",
        "use a list, or a dict with constant keys",
    ),
    "data_dependent": BreakKind(
        "the program asks for the values of a tensor",
        "keep the value a tensor (torch.where), or move the choice out of the compiled function",
    ),
    "depth": BreakKind(
        "calls are nested too deeply", "compile what is called further inside, or write a loop"
    ),
    "disabled": BreakKind(
        "a function is under `framehook.disable` or `torch.compiler.disable`",
        "take the decorator off, or call the function outside of the compiled one",
    ),
    "exception": BreakKind(
        "an exception that needs a real traceback, or that an interpreter itself raises",
        "test the condition before, or handle the exception outside of the compiled function",
    ),
    "finalizer": BreakKind(
        "an object is made or dropped, or a weak reference asked, where somebody may notice when it dies",
        "make the object outside of the compiled function, and keep it there",
    ),
    "generator": BreakKind(
        "a coroutine, or a generator driven in a way that needs a real frame",
        "compile what the generator calls, or make it a plain loop",
    ),
    "limit": BreakKind(
        "the trace is too large, or the code is compiled no more",
        "compile the functions that it calls",
    ),
    "opcode": BreakKind("an instruction that is not traced", "move the statement into a function of its own"),
    "operation": BreakKind(
        "a tensor operation raises on what it is given, or gives what is no tensor",
        "correct its arguments; the real operation raises at its line",
    ),
    "raises": BreakKind(
        "an exception of the program leaves the frame", "catch it outside, as the program does"
    ),
    "rebuild": BreakKind(
        "the frame holds something at a break that no bytecode can make again",
        "finish with it before the break",
    ),
    "requested": BreakKind("`framehook.graph_break()` was called", "remove the call of graph_break()"),
    "side_effect": BreakKind(
        "the frame writes to what others see at once",
        "return the value, and write it outside of the compiled function",
    ),
    "subclass": BreakKind(
        "a tensor subclass, a sparse, quantized or wrapped tensor, or an object that overrides torch functions",
        "convert it to a plain tensor before the call",
    ),
}


__all__ = ["KINDS", "BreakKind"]
