"""A Kubernetes API server, scheduler, Job controller and kubelets."""
