"""What names, label keys and label values may look like, with the API server's sentences.

Source: k8s.io/apimachinery/pkg/util/validation/validation.go.
"""

from __future__ import annotations

import re

_LABEL_1123 = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN_1123 = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
LABEL_SENTENCE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN_SENTENCE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_QUALIFIED_SENTENCE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_SENTENCE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    "for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_CONFIG_KEY_SENTENCE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
    "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)


def label_problem(name: str) -> str:
    """Why a name is no DNS-1123 label; "" where it is one."""
    if len(name) > 63:
        return "must be no more than 63 characters"
    return "" if _LABEL_1123.fullmatch(name) else LABEL_SENTENCE


def subdomain_problem(name: str) -> str:
    """Why a name is no DNS-1123 subdomain; "" where it is one."""
    if len(name) > 253:
        return "must be no more than 253 characters"
    return "" if _SUBDOMAIN_1123.fullmatch(name) else SUBDOMAIN_SENTENCE


def service_problem(name: str) -> str:
    """Why a Service may not be called so. Since 1.36 a digit may come first (RelaxedServiceNameValidation)."""
    if len(name) <= 63 and "." in name:
        return "must not contain dots"
    return label_problem(name)


def label_key_problem(key: str) -> str:
    """Why a label or annotation key is refused; "" where it is fine."""
    prefix, slash, name = key.rpartition("/")
    if slash and not prefix:
        return "prefix part must be non-empty"
    if "/" in prefix:
        return (
            "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and "
            "end with an alphanumeric character with an optional DNS subdomain prefix and '/' (e.g. "
            "'example.com/MyName')"
        )
    if slash and (problem := subdomain_problem(prefix)):
        return f"prefix part {problem}"
    if not name:
        return "name part must be non-empty"
    if len(name) > 63:
        return "name part must be no more than 63 bytes"
    return "" if _QUALIFIED.fullmatch(name) else _QUALIFIED_SENTENCE


def label_value_problem(value: str) -> str:
    """Why a label value is refused; "" where it is fine."""
    if len(value.encode()) > 63:
        return "must be no more than 63 bytes"
    return "" if _VALUE.fullmatch(value) else _VALUE_SENTENCE


def config_key_problem(key: str) -> str:
    """Why a key of a ConfigMap or Secret is refused; "" where it is fine."""
    if len(key) > 253:
        return "must be no more than 253 characters"
    return "" if _CONFIG_KEY.fullmatch(key) else _CONFIG_KEY_SENTENCE
