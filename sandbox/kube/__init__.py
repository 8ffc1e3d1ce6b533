"""A Kubernetes API server, scheduler, Job controller and kubelets.

Answers and verdicts are those of a real 1.36 control plane: tests run the same operations on both. Not
compared, so not to be relied on: which node a pod is bound to and which of several waiting pods gets the
room, victims of preemption on several nodes, when an outdated verdict of the scheduler is rewritten, a pod's
status beyond phase, exit codes and why it is pending or was disrupted, pods of nodes that are gone, Events,
the number and order of writes, and how long anything takes. Not simulated: volumes, resource claims,
disruption budgets in preemption, the annotation node.alpha.kubernetes.io/ttl.
"""
