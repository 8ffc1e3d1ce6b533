"""Sequences of operations on a cluster, drawn at random: nodes, pods and Jobs, created, changed, ended.

A program is a list of rounds, a round a list of operations that follow each other at once. Everything of
a program lies in one namespace and on nodes of its own: `@` in any text stands for the namespace's name.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Object = dict[str, Any]
Operation = tuple[str, str, Any]
"""(POST, plural, manifest), (PATCH, plural/name, merge patch), (DELETE, plural/name, options),
(EVICT, pod, None), (FINISH, a Job or pod, exit code), (KILL, Job, None)"""
Program = list[list[Operation]]

TELL = "sandbox.quartermaster.dev/"
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
STEADY, URGENT = "generated-steady", "generated-urgent"
PRIORITY_CLASSES: list[Object] = [
    {"metadata": {"name": STEADY}, "value": 1000, "preemptionPolicy": "Never"},
    {"metadata": {"name": URGENT}, "value": 100},
]
"""Jobs are steady: nobody's victim, and they displace nobody. Urgent pods name their node, so that which
pods they displace does not hang on the choice of the node."""
MOST_NODES = 4
PATTERN = "wwnwwnwwnw"
"""Rounds about workload or nodes: all programs change their nodes at the same time, because the scheduler's
sentences count every node there is. Nodes end late: what ran on them is collected after a real minute."""
TAINTS: list[list[Object]] = [
    [{"key": "gpu", "value": "true", "effect": "NoSchedule"}],
    [{"key": "gpu", "value": "true", "effect": "PreferNoSchedule"}],
    [{"key": "gpu", "value": "true", "effect": "NoExecute"}],
]
TOLERATIONS: list[list[Object]] = [
    [{"key": "gpu", "operator": "Exists"}],
    [{"key": "gpu", "value": "true", "effect": "NoSchedule"}],
    [{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}],
    [{"operator": "Exists"}],
]
RULES: list[Object] = [
    {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [42]}},
    {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [3]}},
    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    {"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [42]}},
]
EXIT_CODES = st.sampled_from([0, 0, 0, 1, 3, 42])


def maybe(values: Any, odds: int = 2) -> st.SearchStrategy[Any]:
    """One of the values, or more often None the higher the odds."""
    return st.sampled_from([*([None] * odds), *values])


def present(**fields: Any) -> Object:
    """Without what is None."""
    return {key: value for key, value in fields.items() if value is not None}


@st.composite
def nodes(draw: Any, number: int) -> Operation:
    """A machine joins."""
    capacity = {"cpu": draw(st.sampled_from(["1", "2", "4"])), "memory": "16Gi"}
    capacity["pods"] = draw(st.sampled_from(["110", "110", "2"]))
    gpus = draw(maybe(["2", "8"]))
    if gpus:
        capacity["nvidia.com/gpu"] = gpus
    labels = {"group": "@", HOSTNAME: f"@-n{number}"}
    labels |= present(**{ZONE: draw(maybe(["one", "two"], 1)), "disk": draw(maybe(["ssd", "hdd"], 1))})
    spec = present(taints=draw(maybe(TAINTS, 4)), unschedulable=draw(maybe([True], 6)))
    metadata = {"name": f"@-n{number}", "labels": labels}
    status = {"capacity": capacity, "allocatable": capacity}
    return "POST", "nodes", {"metadata": metadata, "spec": spec, "status": status}


@st.composite
def node_changes(draw: Any, name: str) -> Operation:
    """Cordon, taint, label, grow; nothing of it concerns where running pods are, but NoExecute does."""
    patch: Object = draw(
        st.sampled_from(
            [
                {"spec": {"unschedulable": True}},
                {"spec": {"unschedulable": True}},
                {"spec": {"unschedulable": None}},
                {"spec": {"taints": draw(st.sampled_from(TAINTS))}},
                {"spec": {"taints": None}},
                {"metadata": {"labels": {"disk": draw(st.sampled_from(["ssd", "hdd", None]))}}},
                {"metadata": {"labels": {ZONE: draw(st.sampled_from(["one", "two"]))}}},
            ]
        )
    )
    return "PATCH", f"nodes/{name}", patch


def terms(draw: Any) -> list[Object]:
    """nodeSelectorTerms."""
    operator = draw(st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]))
    expression: Object = {"key": draw(st.sampled_from(["disk", ZONE])), "operator": operator}
    if operator in ("In", "NotIn"):
        expression["values"] = ["ssd", "one"]
    return [{"matchExpressions": [expression]}]


@st.composite
def affinities(draw: Any) -> Object:
    """Required node affinity, pod affinity or anti-affinity; or only preferred ones."""
    selector = {"matchLabels": {"app": draw(st.sampled_from(["web", "db"]))}}
    term = {"topologyKey": draw(st.sampled_from([HOSTNAME, ZONE])), "labelSelector": selector}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    kind = draw(st.sampled_from(["node", "prefer", "near", "apart", "apart"]))
    if kind == "node":
        return {"nodeAffinity": {required: {"nodeSelectorTerms": terms(draw)}}}
    if kind == "prefer":
        return {"nodeAffinity": {preferred: [{"weight": 5, "preference": terms(draw)[0]}]}}
    return {"podAffinity" if kind == "near" else "podAntiAffinity": {required: [term]}}


@st.composite
def spreads(draw: Any) -> list[Object]:
    """One topology spread constraint."""
    constraint: Object = {
        "topologyKey": draw(st.sampled_from([HOSTNAME, ZONE])),
        "maxSkew": draw(st.sampled_from([1, 2])),
        "whenUnsatisfiable": draw(st.sampled_from(["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"])),
        "labelSelector": {"matchLabels": {"app": "web"}},
        "nodeTaintsPolicy": draw(maybe(["Honor"])),
        "nodeAffinityPolicy": draw(maybe(["Ignore"])),
    }
    if constraint["whenUnsatisfiable"] == "DoNotSchedule":
        constraint["minDomains"] = draw(maybe([2, 3], 4))
    return [present(**constraint)]


def containers(draw: Any, cpus: list[str], gpus: list[Any]) -> Object:
    """The containers of a pod: one, now and then with an init container or a sidecar before it."""
    cpu, gpu = draw(st.sampled_from(cpus)), draw(st.sampled_from(gpus))
    resources: Object = {"requests": {"cpu": cpu}}
    if gpu:
        resources["limits"] = {"nvidia.com/gpu": gpu}
    main: Object = {"name": "main", "image": "lab/train:1", "resources": resources}
    if draw(maybe([True], 9)):
        main["ports"] = [{"containerPort": 5555, "hostPort": 5555}]
    before: Object = {"name": "before", "image": "lab/init:1", "resources": {"requests": {"cpu": "2"}}}
    if draw(st.booleans()):
        before["restartPolicy"] = "Always"
    return present(containers=[main], initContainers=draw(maybe([[before]], 7)))


@st.composite
def pods(draw: Any, name: str, node_names: list[str]) -> Operation:
    """A pod by itself."""
    spec: Object = {"restartPolicy": "Never", "nodeSelector": {"group": "@"}}
    spec |= containers(draw, ["10m", "1", "2", "3"], [None, None, None, 1, 4])
    spec |= present(
        tolerations=draw(maybe(TOLERATIONS, 3)),
        affinity=draw(st.one_of(st.none(), affinities())),
        topologySpreadConstraints=draw(st.one_of(st.none(), st.none(), spreads())),
        schedulingGates=draw(maybe([[{"name": "lab/quota"}]], 9)),
    )
    disk = draw(maybe(["ssd", "hdd"], 4))
    if disk:
        spec["nodeSelector"]["disk"] = disk
    if node_names and draw(maybe([True], 4)):
        spec["priorityClassName"] = URGENT
        spec["nodeSelector"][HOSTNAME] = draw(st.sampled_from(node_names))
    metadata = present(name=name, labels=draw(maybe([{"app": "web"}, {"app": "db"}], 1)))
    seconds = draw(maybe(["0", "2"], 6))
    if seconds:
        code = str(draw(EXIT_CODES))
        metadata["annotations"] = {f"{TELL}run-seconds": seconds, f"{TELL}exit-code": code}
    return "POST", "pods", {"metadata": metadata, "spec": spec}


@st.composite
def jobs(draw: Any, name: str) -> Operation:
    """A Job of any shape, right or refused."""
    indexed = draw(st.sampled_from([True, True, False]))
    per_index = draw(maybe([0, 1], 1)) if indexed else draw(maybe([1], 12))
    policy = draw(maybe([True], 2))
    rules = draw(st.lists(st.sampled_from(RULES), min_size=1, max_size=3)) if policy else None
    if rules and per_index is None:
        rules = [rule for rule in rules if rule["action"] != "FailIndex"] or [RULES[2]]
    completions = draw(st.sampled_from([1, 2, 3, 4] if indexed else [None, 1, 3]))
    success = draw(maybe([{"rules": [{"succeededIndexes": "0"}]}, {"rules": [{"succeededCount": 2}]}], 5))
    spec = present(
        completionMode="Indexed" if indexed else draw(maybe(["NonIndexed"])),
        completions=completions,
        parallelism=draw(maybe([0, 1, 2, 3, 5], 1)),
        suspend=draw(maybe([True, False])),
        backoffLimit=draw(maybe([0, 1], 2)),
        backoffLimitPerIndex=per_index,
        maxFailedIndexes=draw(maybe([0, 1], 2)) if per_index is not None else None,
        podFailurePolicy=None if rules is None else {"rules": rules},
        podReplacementPolicy=draw(maybe(["Failed"] if policy else ["Failed", "TerminatingOrFailed"])),
        successPolicy=success if indexed else None,
        activeDeadlineSeconds=draw(maybe([6], 9)),
        ttlSecondsAfterFinished=draw(maybe([2], 9)),
    )
    pod: Object = {"restartPolicy": "Never", "nodeSelector": {"group": "@"}, "priorityClassName": STEADY}
    pod |= containers(draw, ["10m", "10m", "1"], [None, None, None, 1])
    pod |= present(
        tolerations=draw(maybe(TOLERATIONS, 3)),
        topologySpreadConstraints=draw(st.one_of(st.none(), st.none(), st.none(), spreads())),
    )
    metadata: Object = present(labels=draw(maybe([{"app": "web"}], 1)))
    if draw(maybe([True], 4)):
        metadata["annotations"] = {f"{TELL}run-seconds": "1", f"{TELL}exit-code": str(draw(EXIT_CODES))}
    spec["template"] = {"metadata": metadata, "spec": pod}
    return "POST", "jobs", {"metadata": {"name": name}, "spec": spec}


@st.composite
def job_changes(draw: Any, name: str) -> Any:
    """Suspend, resume, scale, end or lose a pod, delete."""
    count = draw(st.integers(0, 4))
    scaled = {"spec": {"parallelism": count, "completions": draw(st.sampled_from([count, count, 2]))}}
    policy = draw(st.sampled_from(["Background", "Foreground", "Orphan", None]))
    return draw(
        st.sampled_from(
            [
                ("PATCH", f"jobs/{name}", {"spec": {"suspend": True}}),
                ("PATCH", f"jobs/{name}", {"spec": {"suspend": False}}),
                ("PATCH", f"jobs/{name}", {"spec": {"parallelism": count}}),
                ("PATCH", f"jobs/{name}", scaled),
                ("FINISH", name, draw(EXIT_CODES)),
                ("FINISH", name, draw(EXIT_CODES)),
                ("FINISH", name, draw(EXIT_CODES)),
                ("KILL", name, None),
                ("DELETE", f"jobs/{name}", present(propagationPolicy=policy)),
            ]
        )
    )


@st.composite
def pod_changes(draw: Any, name: str) -> Any:
    """End, evict, delete; open the gate."""
    grace = draw(st.sampled_from([{}, {}, {"gracePeriodSeconds": 0}]))
    return draw(
        st.sampled_from(
            [
                ("FINISH", name, draw(EXIT_CODES)),
                ("DELETE", f"pods/{name}", grace),
                ("EVICT", name, None),
                ("PATCH", f"pods/{name}", {"spec": {"schedulingGates": None}}),
            ]
        )
    )


@st.composite
def programs(draw: Any) -> Program:
    """Some machines; then round by round one operation, as PATTERN says about what; at last nodes may go."""
    count = draw(st.integers(1, 3))
    program: Program = [[draw(nodes(number)) for number in range(count)]]
    names: dict[str, list[str]] = {"node": [f"@-n{number}" for number in range(count)], "pod": [], "job": []}
    for number, letter in enumerate(PATTERN):
        kinds = ["new pod", "new pod", "new job"]
        kinds += ["pod change"] * (2 if names["pod"] else 0) + ["job change"] * (6 if names["job"] else 0)
        if letter == "n":
            kinds = ["node change"] + ["new node"] * (len(names["node"]) < MOST_NODES)
            kinds += ["node end"] * (number >= len(PATTERN) - 2)
        kind = draw(st.sampled_from(kinds))
        program.append([draw(_operation(kind, number, names))])
    return program


@st.composite
def _operation(draw: Any, kind: str, number: int, names: dict[str, list[str]]) -> Any:
    if kind == "new node":
        names["node"].append(f"@-n{number + 10}")
        return draw(nodes(number + 10))
    if kind == "new pod":
        names["pod"].append(f"p{number}")
        return draw(pods(f"p{number}", names["node"]))
    if kind == "new job":
        names["job"].append(f"j{number}")
        return draw(jobs(f"j{number}"))
    name = draw(st.sampled_from(names[kind.split()[0]]))
    if kind == "node end":
        return "DELETE", f"nodes/{name}", None
    change = {"node change": node_changes, "pod change": pod_changes, "job change": job_changes}[kind]
    return draw(change(name))
