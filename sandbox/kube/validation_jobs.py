"""What the API server refuses in Jobs (pkg/apis/batch/validation/validation.go)."""

from __future__ import annotations

from typing import Any

from sandbox.kube.errors import Cause
from sandbox.kube.names import label_key_problem, label_problem, label_value_problem
from sandbox.kube.selectors import requirements_of
from sandbox.kube.validation_pods import NOT_NEGATIVE, supported, validate_pod_spec

Object = dict[str, Any]
Causes = list[Cause]

_INDEXED_PARALLELISM = 100_000
_MANY_INDEXES = 100_000
_LIMIT_OF_MANY = 10_000
_SCHEDULING = ("affinity", "nodeSelector", "schedulingGates", "tolerations")
_NOT_GENERATED = "`selector` not auto-generated"
_NO_MATCH = "`selector` does not match template `labels`"
_COUNTS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)


def validate_job(obj: Object) -> Causes:
    """Everything wrong with a Job, defaults and its own selector filled in."""
    spec = obj["spec"]
    causes = [
        Cause("invalid", f"spec.{name}", NOT_NEGATIVE, spec[name])
        for name in _COUNTS
        if spec.get(name) is not None and spec[name] < 0
    ]
    causes += _managed_by(spec) + _indexes(obj) + _policies(spec) + _success_policy(spec)
    causes += _template(spec)
    return causes + _selector(obj)


def _managed_by(spec: Object) -> Causes:
    name = spec.get("managedBy")
    if name is None:
        return []
    prefix, slash, path = name.partition("/")
    if not slash or not path or label_key_problem(f"{prefix}/x"):
        why = 'must be a domain-prefixed path (such as "acme.io/foo")'
        return [Cause("invalid", "spec.managedBy", why, name)]
    return []


def _indexes(obj: Object) -> Causes:
    spec = obj["spec"]
    mode, completions = spec.get("completionMode"), spec.get("completions")
    causes: Causes = []
    if mode not in ("NonIndexed", "Indexed"):
        causes.append(Cause("unsupported", "spec.completionMode", supported(("NonIndexed", "Indexed")), mode))
    if mode == "Indexed":
        if completions is None:
            why = "when completion mode is Indexed"
            causes.append(Cause("required", "spec.completions", why))
        if spec["parallelism"] > _INDEXED_PARALLELISM:
            why = f"must be less than or equal to {_INDEXED_PARALLELISM} when completion mode is Indexed"
            causes.append(Cause("invalid", "spec.parallelism", why, spec["parallelism"]))
        causes += _pod_names(obj)
    by_index, most_failed = spec.get("backoffLimitPerIndex"), spec.get("maxFailedIndexes")
    if by_index is not None and mode != "Indexed":
        causes.append(
            Cause("invalid", "spec.backoffLimitPerIndex", "requires indexed completion mode", by_index)
        )
    if most_failed is not None and mode != "Indexed":
        causes.append(
            Cause("invalid", "spec.maxFailedIndexes", "requires indexed completion mode", most_failed)
        )
    if most_failed is not None and by_index is None:
        causes.append(Cause("required", "spec.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if most_failed is not None and completions is not None and most_failed > completions:
        causes.append(
            Cause(
                "invalid", "spec.maxFailedIndexes", "must be less than or equal to completions", most_failed
            )
        )
    if by_index is not None and (completions or 0) > _MANY_INDEXES:
        causes += _many_indexes(spec)
    return causes


def _many_indexes(spec: Object) -> Causes:
    causes: Causes = []
    if spec.get("maxFailedIndexes") is None:
        why = f"must be specified when completions is above {_MANY_INDEXES}"
        causes.append(Cause("required", "spec.maxFailedIndexes", why))
    elif spec["maxFailedIndexes"] > _LIMIT_OF_MANY:
        why = f"must be less than or equal to {_LIMIT_OF_MANY} when completions are above {_MANY_INDEXES} and used with backoff limit per index"
        causes.append(Cause("invalid", "spec.maxFailedIndexes", why, spec["maxFailedIndexes"]))
    if spec["parallelism"] > _LIMIT_OF_MANY:
        why = f"must be less than or equal to {_LIMIT_OF_MANY} when completions are above {_MANY_INDEXES} and used with backoff limit per index"
        causes.append(Cause("invalid", "spec.parallelism", why, spec["parallelism"]))
    return causes


def _pod_names(obj: Object) -> Causes:
    """The pods' host names, `<job>-<index>`, have to be DNS labels."""
    completions, name = obj["spec"].get("completions") or 0, obj["metadata"].get("name", "")
    if completions <= 0:
        return []
    hostname = f"{name}-{completions - 1}"
    if not label_problem(hostname):
        return []
    why = f"will not able to create pod with invalid DNS label: {hostname}"
    return [Cause("invalid", "metadata.name", why, name)]


def _policies(spec: Object) -> Causes:
    policy, replacement = spec.get("podFailurePolicy"), spec.get("podReplacementPolicy")
    causes: Causes = []
    if policy is not None:
        rules = policy.get("rules") or ()
        if len(rules) > 20:
            causes.append(Cause("too many", "spec.podFailurePolicy.rules", "must have at most 20 items"))
        for index, rule in enumerate(rules):
            causes += _failure_rule(rule, f"spec.podFailurePolicy.rules[{index}]", spec)
        if spec["template"]["spec"].get("restartPolicy") != "Never":
            given = spec["template"]["spec"].get("restartPolicy")
            why = 'only "Never" is supported when podFailurePolicy is specified'
            causes.append(Cause("invalid", "spec.template.spec.restartPolicy", why, given))
        if replacement != "Failed":
            causes.append(
                Cause("unsupported", "spec.podReplacementPolicy", supported(("Failed",)), replacement)
            )
    elif replacement not in ("Failed", "TerminatingOrFailed"):
        why = supported(("Failed", "TerminatingOrFailed"))
        causes.append(Cause("unsupported", "spec.podReplacementPolicy", why, replacement))
    return causes


def _failure_rule(rule: Object, at: str, spec: Object) -> Causes:
    action, codes, conditions = rule.get("action"), rule.get("onExitCodes"), rule.get("onPodConditions")
    actions = ("Count", "FailIndex", "FailJob", "Ignore")
    causes: Causes = []
    if action not in actions:
        causes.append(Cause("unsupported", f"{at}.action", supported(actions), action or ""))
    if action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
        why = "requires the backoffLimitPerIndex to be set"
        causes.append(Cause("invalid", f"{at}.action", why, action))
    if bool(codes) == bool(conditions):
        why = "exactly one of onExitCodes and onPodConditions is required"
        if codes:
            why = "specifying both OnExitCodes and OnPodConditions is not supported"
        else:
            why = "specifying one of OnExitCodes and OnPodConditions is required"
        causes.append(Cause("invalid", at, why, rule))
    if codes:
        values = codes.get("values") or []
        if not 1 <= len(values) <= 255:
            causes.append(
                Cause("invalid", f"{at}.onExitCodes.values", "at least one value is required", values)
            )
        if codes.get("operator") == "In" and 0 in values:
            why = "must not be 0 for the In operator"
            causes.append(Cause("invalid", f"{at}.onExitCodes.values[{values.index(0)}]", why, 0))
        if values != sorted(set(values)):
            causes.append(Cause("invalid", f"{at}.onExitCodes.values", "must be ordered", values))
    return causes


def _success_policy(spec: Object) -> Causes:
    policy, at = spec.get("successPolicy"), "spec.successPolicy"
    if policy is None:
        return []
    if spec.get("completionMode") != "Indexed":
        return [Cause("invalid", at, "requires indexed completion mode", policy)]
    rules = policy.get("rules") or ()
    if not rules:
        why = "at least one rules must be specified when the successPolicy is specified"
        return [Cause("required", f"{at}.rules", why)]
    completions = spec.get("completions") or 0
    return [
        cause
        for i, rule in enumerate(rules)
        for cause in _success_rule(rule, f"{at}.rules[{i}]", completions)
    ]


def _success_rule(rule: Object, at: str, completions: int) -> Causes:
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    if count is None and indexes is None:
        why = "at least one of succeededCount or succeededIndexes must be specified"
        return [Cause("required", at, why)]
    causes: Causes = []
    total = 0
    if indexes is not None:
        total, problem = _count_indexes(indexes, completions)
        if problem:
            why = f"error parsing succeededIndexes: {problem}"
            causes.append(Cause("invalid", f"{at}.succeededIndexes", why, indexes))
    if count is None:
        return causes
    at = f"{at}.succeededCount"
    if count < 0:
        causes.append(Cause("invalid", at, NOT_NEGATIVE, count))
    limits = [(completions, "the number of specified completions")]
    if indexes is not None:
        limits.append((total, "the number of indexes in the specified succeededIndexes field"))
    for limit, words in limits:
        if count > limit:
            why = f"must be less than or equal to {limit} ({words})"
            causes.append(Cause("invalid", at, why, count))
    return causes


def _count_indexes(text: str, completions: int) -> tuple[int, str]:
    """How many indexes `0,2-4` names, and what is wrong with it (validateIndexesFormat)."""
    total, last = 0, -1
    for part in text.split(",") if text else ():
        limits = part.split("-")
        if len(limits) > 2:
            rule = "an index interval can have at most two parts separated by '-'"
            return 0, f'the fragment "{part}" violates the requirement that {rule}'
        first = last
        for limit in limits:
            if not limit.isdigit():
                return 0, f'cannot convert string to integer for index: "{limit}"'
            if int(limit) >= completions:
                return 0, f'too large index: "{limit}"'
            if last >= int(limit):
                return 0, f"non-increasing order, previous: {last}, current: {limit}"
            first, last = last, int(limit)
        total += 1 if len(limits) == 1 else last - first + 1
    return total, ""


def _template(spec: Object) -> Causes:
    template = spec["template"]
    causes: Causes = []
    for key, value in ((template.get("metadata") or {}).get("labels") or {}).items():
        if problem := label_key_problem(key):
            causes.append(Cause("invalid", "spec.template.labels", problem, key))
        if problem := label_value_problem(value):
            causes.append(Cause("invalid", "spec.template.labels", problem, value))
    causes += validate_pod_spec(template["spec"], "spec.template.spec")
    if template["spec"].get("restartPolicy") == "Always":
        why = 'valid values: "OnFailure", "Never"'
        causes.append(Cause("required", "spec.template.spec.restartPolicy", why))
    return causes


def _selector(obj: Object) -> Causes:
    spec, uid = obj["spec"], obj["metadata"].get("uid")
    selector = spec.get("selector") or {}
    generated = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    old_style = {"matchLabels": {"controller-uid": uid}}
    causes: Causes = []
    if not spec.get("manualSelector") and selector not in (generated, old_style):
        causes.append(Cause("invalid", "spec.selector", _NOT_GENERATED, selector))
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    requirements = requirements_of(selector) or ()
    if not all(requirement.matches(labels) for requirement in requirements):
        causes.append(Cause("invalid", "spec.template.metadata.labels", _NO_MATCH, labels))
    return causes


def validate_job_update(new: Object, old: Object) -> Causes:
    """What of a Job may not change.

    The template is fixed, except its labels, annotations and scheduling directives (and, since 1.36,
    its resources) while the Job is suspended and its status has no startTime (the controller takes it
    away once it has suspended a Job that ran). Completions of an Indexed Job
    change only together with parallelism.
    """
    spec, was = new["spec"], old["spec"]
    causes: Causes = []
    if spec.get("completions") != was.get("completions"):
        if spec.get("completionMode") != "Indexed":
            causes.append(_immutable("spec.completions", spec.get("completions")))
        elif spec.get("completions") != spec.get("parallelism"):
            why = "can only be modified in tandem with spec.parallelism"
            causes.append(Cause("invalid", "spec.completions", why, spec.get("completions")))
    if spec.get("selector") != was.get("selector"):
        causes.append(_immutable("spec.selector", spec.get("selector")))
    causes += _template_update(new, old)
    for name in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"):
        if spec.get(name) != was.get(name):
            causes.append(_immutable(f"spec.{name}", spec.get(name)))
    return causes


def _immutable(field: str, value: object) -> Cause:
    return Cause("invalid", field, "field is immutable", value)


def _template_update(new: Object, old: Object) -> Causes:
    template, was = new["spec"]["template"], old["spec"]["template"]
    if template == was:
        return []
    never_started = (old.get("status") or {}).get("startTime") is None
    if not (old["spec"].get("suspend") and never_started):
        return [_immutable("spec.template", template)]
    if _fixed_part(template["spec"]) != _fixed_part(was["spec"]):
        return [_immutable("spec.template.spec", template["spec"])]
    return []


def _fixed_part(spec: Object) -> Object:
    found = {key: value for key, value in spec.items() if key not in _SCHEDULING}
    for group in ("containers", "initContainers"):
        if found.get(group):
            found[group] = [{**container, "resources": None} for container in found[group]]
    return found
