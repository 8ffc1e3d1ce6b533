"""Reads requests and writes answers of AWS services from botocore's own service models.

EC2's query protocol: parameters are flattened (`TagSpecification.1.Tag.2.Key`), answers are XML. Pricing and
Cost Explorer: JSON. Shapes decide all names and types, so an operation needs no code here.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import json
import re
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any
from xml.sax.saxutils import escape

import botocore.session
from botocore.model import OperationModel, ServiceModel, Shape


class AwsError(Exception):
    """An error as the service would answer it. `status` decides whether clients retry by themselves."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status


_STATUSES = {
    "AuthFailure": 401,
    "UnauthorizedOperation": 403,
    "RequestLimitExceeded": 503,
    "Unavailable": 503,
    "ServiceUnavailable": 503,
    "InternalError": 500,
    "InternalFailure": 500,
    "InsufficientInstanceCapacity": 500,
    "DryRunOperation": 412,
    "InternalErrorException": 500,
}
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")


def usual_status(code: str) -> int:
    """The HTTP status with which AWS sends an error of this code."""
    return _STATUSES.get(code, 400)


@cache
def service_model(service: str) -> ServiceModel:
    """botocore's model of a service (`ec2`, `pricing`, `ce`)."""
    return botocore.session.Session().get_service_model(service)


class QueryCodec:
    """EC2's protocol."""

    content_type = "text/xml;charset=UTF-8"

    def __init__(self, service: str) -> None:
        self.model = service_model(service)
        self._requests = itertools.count(1)

    def operation(self, name: str) -> OperationModel:
        """The operation's model; AwsError InvalidAction where there is none."""
        if name not in self.model.operation_names:
            raise AwsError("InvalidAction", f"The action {name} is not valid for this web service.")
        return self.model.operation_model(name)

    def read(self, operation: OperationModel, form: Mapping[str, str]) -> dict[str, Any]:
        """The request's members as plain values; AwsError for what the operation does not take."""
        tree: dict[str, Any] = {}
        for key, value in form.items():
            if key not in ("Action", "Version"):
                _plant(tree, key, value)
        return dict(self._value(operation.input_shape, tree, "")) if operation.input_shape else {}

    def _value(self, shape: Shape, raw: Any, path: str) -> Any:
        if shape.type_name == "structure":
            return self._structure(shape, raw, path)
        if shape.type_name == "list":
            if raw == "":
                return []
            if not isinstance(raw, dict) or not all(key.isdigit() for key in raw):
                raise AwsError("InvalidParameterValue", f"The parameter {path} is not a list.")
            return [self._value(shape.member, raw[key], f"{path}.{key}") for key in sorted(raw, key=int)]
        if isinstance(raw, dict):
            raise AwsError("UnknownParameter", f"The parameter {path}.{next(iter(raw))} is not recognized")
        return _scalar(shape, raw, path)

    def _structure(self, shape: Shape, raw: Any, path: str) -> dict[str, Any]:
        if not isinstance(raw, dict):
            raise AwsError("InvalidParameterValue", f"The parameter {path} is not a structure.")
        wires = {_query_name(member, name): name for name, member in shape.members.items()}
        found = {}
        for wire, value in raw.items():
            where = f"{path}.{wire}" if path else wire
            if wire not in wires:
                raise AwsError("UnknownParameter", f"The parameter {where} is not recognized")
            found[wires[wire]] = self._value(shape.members[wires[wire]], value, where)
        return found

    def write(self, operation: OperationModel, answer: Mapping[str, Any]) -> bytes:
        """The XML of an answer."""
        version = self.model.metadata["apiVersion"]
        inner = self._members(operation.output_shape, answer) if operation.output_shape else ""
        text = (
            f'<?xml version="1.0" encoding="UTF-8"?>\n<{operation.name}Response '
            f'xmlns="http://ec2.amazonaws.com/doc/{version}/">'
            f"<requestId>{self._request_id()}</requestId>{inner}</{operation.name}Response>"
        )
        return text.encode()

    def _members(self, shape: Shape, values: Mapping[str, Any]) -> str:
        return "".join(
            self._element(member, member.serialization.get("name", name), values[name])
            for name, member in shape.members.items()
            if values.get(name) is not None
        )

    def _element(self, shape: Shape, name: str, value: Any) -> str:
        if shape.type_name == "structure":
            return f"<{name}>{self._members(shape, value)}</{name}>"
        if shape.type_name == "list":
            item = shape.member.serialization.get("name", "member")
            if shape.serialization.get("flattened"):
                return "".join(self._element(shape.member, name, each) for each in value)
            return f"<{name}>{''.join(self._element(shape.member, item, each) for each in value)}</{name}>"
        return f"<{name}>{_escaped(_text(shape, value))}</{name}>"

    def error(self, error: AwsError) -> bytes:
        """The XML of an error."""
        return (
            '<?xml version="1.0" encoding="UTF-8"?>\n<Response><Errors><Error>'
            f"<Code>{_escaped(error.code)}</Code><Message>{_escaped(error.message)}</Message>"
            f"</Error></Errors><RequestID>{self._request_id()}</RequestID></Response>"
        ).encode()

    def _request_id(self) -> uuid.UUID:
        return uuid.UUID(int=next(self._requests))


class JsonCodec:
    """The JSON protocol of Pricing and Cost Explorer: their shapes are plain already."""

    content_type = "application/x-amz-json-1.1"

    @staticmethod
    def read(body: bytes) -> dict[str, Any]:
        """The request; AwsError SerializationException where it is none."""
        try:
            found = json.loads(body or b"{}")
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise AwsError("SerializationException", "The request is not a JSON object.")
        return found

    @staticmethod
    def write(answer: Mapping[str, Any]) -> bytes:
        """The answer."""
        return json.dumps(answer).encode()

    @staticmethod
    def error(error: AwsError) -> bytes:
        """An error."""
        return json.dumps({"__type": error.code, "message": error.message}).encode()


def _query_name(shape: Shape, name: str) -> str:
    serialization = shape.serialization
    if "queryName" in serialization:
        return str(serialization["queryName"])
    wire = str(serialization.get("name", name))
    return wire[:1].upper() + wire[1:]


def _plant(tree: dict[str, Any], key: str, value: str) -> None:
    node = tree
    *parents, leaf = key.split(".")
    for part in parents:
        below = node.setdefault(part, {})
        if not isinstance(below, dict):
            raise AwsError("MalformedQueryString", f"The parameter {key} is given twice.")
        node = below
    if leaf in node:
        raise AwsError("MalformedQueryString", f"The parameter {key} is given twice.")
    node[leaf] = value


def _scalar(shape: Shape, raw: str, path: str) -> Any:
    try:
        return _parsed(shape.type_name, raw)
    except (ValueError, binascii.Error):
        raise AwsError(
            "InvalidParameterValue",
            f"Value ({raw}) for parameter {path} is invalid: not a {shape.type_name}.",
        ) from None


def _parsed(kind: str, raw: str) -> Any:
    if kind == "boolean":
        if raw.lower() not in ("true", "false"):
            raise ValueError(raw)
        return raw.lower() == "true"
    if kind in ("integer", "long"):
        return int(raw)
    if kind in ("float", "double"):
        return float(raw)
    if kind == "timestamp":
        return datetime.fromisoformat(raw.replace("Z", "+00:00")).astimezone(UTC)
    if kind == "blob":
        return base64.b64decode(raw, validate=True)
    return raw


def _text(shape: Shape, value: Any) -> str:
    if shape.type_name == "boolean":
        return "true" if value else "false"
    if shape.type_name == "timestamp":
        moment: datetime = value
        return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    if shape.type_name == "blob":
        return base64.b64encode(value).decode()
    return str(value)


def _escaped(text: str) -> str:
    """XML cannot hold control characters at all."""
    return escape(_CONTROL.sub("\N{REPLACEMENT CHARACTER}", text))
