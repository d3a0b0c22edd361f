"""Base classes of results: `Result`, its `Certificate`, and the conversion to plain values for JSON."""

import json
import math
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import BaseModel

from onehead.results.formatting import (
    MAX_ITEMS,
    data_frame,
    first_paragraph,
    flatten,
    html_badge,
    html_cell,
    html_table,
    load_pandas,
    wrap_sentences,
)

if TYPE_CHECKING:
    import pandas as pd

INTERRUPTED = "interrupted before it was solved."
FAILED = "failed"  # first word of the status of a point that could not be solved
REPR_NUMBERS = 4  # numbers in the repr of a result that names none

Kind = Literal["theorem", "claim", "conjecture", "heuristic", "measurement"]


def plain(value: Any) -> Any:
    """Convert a value to types that JSON can represent; numbers that are not finite become ``None``."""
    if isinstance(value, BaseModel):
        return {name: plain(getattr(value, name)) for name in type(value).model_fields}
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return str(value)


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """Evidence of how far a result can be trusted.

    Attributes
    ----------
    status : str
        How the computation ended, in words; begins with "converged" if the solver converged.
    kind : str
        How well the theory behind the result is established, from "theorem" to "measurement".
    residual : float
        Undamped residual of the equations: largest relative change of an unknown.
    quadrature_error : float
        Estimated error of the main number.
    evaluations : int
        Evaluations of the equations.
    errors : dict
        Estimated errors of all numbers that have one, by name.
    warnings : tuple of str
        Sentences to read before using the result.
    """

    status: str
    kind: Kind
    residual: float = 0.0
    quadrature_error: float = 0.0
    evaluations: int = 0
    errors: dict[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, other: "Certificate", **changes: Any) -> Self:
        """Derive a certificate from another one: common fields are copied, and then changed.

        Examples
        --------
        >>> known = Certificate(status="converged", kind="claim", residual=1e-9)
        >>> Certificate.of(known, kind="heuristic").residual
        1e-09
        """
        own = {field.name for field in fields(cls)}
        return cls(**{f.name: getattr(other, f.name) for f in fields(other) if f.name in own} | changes)

    @property
    def converged(self) -> bool:
        """Whether the solver converged."""
        return self.status.startswith("converged")

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C stopped the computation."""
        return self.status.startswith("interrupted")

    @property
    def clean(self) -> bool:
        """Whether the solver converged without an approximation or a warning."""
        return self.converged and "approximate" not in self.status and not self.warnings


class OneLineRepr:
    """Mixin that keeps the inherited one-line repr in subclasses that are dataclasses."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "__repr__" not in vars(cls):  # `dataclass` replaces the repr unless the class itself defines one
            cls.__repr__ = cls.__repr__  # type: ignore[method-assign]


@dataclass(frozen=True, kw_only=True)
class Result(OneLineRepr):
    """Base class of all results: numbers with their errors, and a certificate."""

    _NESTED: ClassVar[tuple[str, ...]] = ("certificate",)  # fields that `to_dict` merges into its top level
    _HIDDEN: ClassVar[tuple[str, ...]] = ()  # fields that `to_dict` leaves out
    _SUMMARY_FIELDS: ClassVar[tuple[str, ...]] = ()  # fields in the repr; if empty, the first numbers
    _MAIN: ClassVar[str] = "test_error"  # number whose error is the quadrature error of the certificate
    MEANINGS: ClassVar[dict[str, str]] = {}  # what a number is, by its name
    _RARE: ClassVar[tuple[str, ...]] = ()  # numbers that few problems have: shown where they are neither None nor zero

    @property
    def shown_meanings(self) -> dict[str, str]:
        """`MEANINGS` without the rare numbers that this result does not have."""
        return {
            name: text for name, text in self.MEANINGS.items() if name not in self._RARE or getattr(self, name, None)
        }

    @property
    def _certificate(self) -> Certificate | None:
        certificate: Certificate | None = vars(self).get("certificate")
        return certificate

    @property
    def status(self) -> str:
        """How the computation ended, in words; empty without a certificate."""
        return "" if self._certificate is None else self._certificate.status

    @property
    def kind(self) -> Kind | None:
        """How well the theory behind the result is established; None without a certificate."""
        return self._certificate.kind if self._certificate is not None else None

    @property
    def cautions(self) -> tuple[str, ...]:
        """Sentences to read before using a predicted number, from its certificate; none for measurements."""
        certificate = self._certificate
        return () if certificate is None or certificate.kind == "measurement" else certificate.warnings

    @cached_property
    def errors(self) -> dict[str, float]:
        """Errors by name: quadrature errors of predicted numbers, standard errors of measured ones."""
        if self._certificate is None:
            return {}
        own = {field.name for field in fields(self)}
        main = (
            {self._MAIN: self._certificate.quadrature_error}
            if isinstance(getattr(self, self._MAIN, None), float)
            else {}
        )
        return main | {name: error for name, error in self._certificate.errors.items() if name in own}

    def check_verb(self, verb: str) -> None:
        """Refuse a result whose problem has parameters that the function ``verb`` does not support."""
        for name in ("task", "learner", "protocol"):
            problem = vars(self).get(name)
            if problem is not None and hasattr(problem, "check_verb"):
                problem.check_verb(verb)

    def _error_attributes(self) -> dict[str, float]:
        """Errors as attributes with names of their own, such as ``test_error_err``."""
        return {f"{name}_err": error for name, error in self.errors.items()}

    if not TYPE_CHECKING:  # the type checker knows the fields only

        def __getattr__(self, name: str) -> float:
            """Return the error of a number, such as ``test_error_err``."""
            if name.endswith(("_std", "_err")) and name in (errors := self._error_attributes()):
                return errors[name]
            # `to_dict` shows the fields of the certificate beside those of the result
            place = f"; it is .certificate.{name}" if hasattr(self._certificate, name) else ""
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{place}")

    def _numbers(self) -> dict[str, float]:
        """Numbers of the result itself, without those of the problem and the certificate."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in self._HIDDEN}
        return {name: v for name, v in values.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}

    def _value_text(self, name: str) -> str:
        """Format one field: a number with its error, anything else by its repr."""
        value, error = getattr(self, name), self.errors.get(name, math.nan)
        if not isinstance(value, float):
            return repr(value)
        return f"{value:.5g}" + (f" ± {error:.2g}" if error > 0.0 else "")

    def __repr__(self) -> str:
        names = self._SUMMARY_FIELDS or tuple(self._numbers())[:REPR_NUMBERS]
        parts = [f"{name}={self._value_text(name)}" for name in names if getattr(self, name) is not None]
        status = [f"status={self.status!r}"] if self.status else []
        return f"{type(self).__name__}({', '.join(parts + status)})"

    def explain(self) -> str:
        """Describe in words what the result is, what its numbers mean, and how far they can be trusted.

        Examples
        --------
        >>> from onehead.sparse import Protocol, Task, align
        >>> print(align(Task(), Protocol()).explain().splitlines()[1])
        cos_query = 0.88371: cosine of the query with the signal.
        """
        numbers = self._numbers()
        names = [name for name in self.shown_meanings if name in numbers] or list(numbers)[:MAX_ITEMS]
        meanings = {name: f": {self.MEANINGS[name]}." if name in self.MEANINGS else "." for name in names}
        lines = [f"{name} = {self._value_text(name)}{meanings[name]}" for name in names]
        return wrap_sentences([first_paragraph(type(self)), *lines, *self._closing()])

    def _closing(self) -> list[str]:
        """Lines of `explain` about the certificate: warnings, status and kind of truth."""
        if self._certificate is None:
            return []
        notes = [f"Note: {warning}" for warning in self._certificate.warnings]
        return [*notes, f"Status: {self._certificate.status}. Kind of truth: {self._certificate.kind}."]

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values; names of errors end in ``_err``, numbers that are not finite become ``None``."""
        row: dict[str, Any] = {}
        for name in (f.name for f in fields(self) if f.name not in self._HIDDEN):
            value = plain(getattr(self, name))
            if name in self._NESTED and isinstance(value, dict):
                value.pop("errors", None)
                row |= value
            else:
                row[name] = value
        stated = self._certificate.errors if self._certificate is not None else {}
        return row | {f"{name}_err": plain(error) for name, error in stated.items() if name in row}

    def to_json(self) -> str:
        """Return one JSON object."""
        return json.dumps(self.to_dict(), allow_nan=False)

    def _repr_html_(self) -> str:
        """Return an HTML table of the first numbers with a badge of the status, for notebooks."""
        certificate, trust = self._certificate, ""
        numbers = {name: value for name, value in self.to_dict().items() if name not in ("status", "kind", "warnings")}
        cells = [
            f"<td>{escape(name)}</td><td style='text-align:right'>{html_cell(value)}</td>"
            for name, value in numbers.items()
            if value is None or isinstance(value, (bool, int, float))
        ]
        if certificate is not None:
            notes = "".join(f"<br><small>{escape(text)}</small>" for text in certificate.warnings)
            trust = f"{html_badge(certificate.status, certificate.clean)} {escape(certificate.kind)}{notes}"
        return html_table(f"{type(self).__name__} {trust}", cells, columns=2)

    def to_series(self) -> "pd.Series[Any]":
        """Return a pandas series; parameters of the problem have dotted names."""
        series: pd.Series[Any] = load_pandas().Series(dict(flatten("", self.to_dict())))
        return series

    def to_frame(self) -> "pd.DataFrame":
        """Return a pandas table with one row."""
        return data_frame([self.to_dict()])
