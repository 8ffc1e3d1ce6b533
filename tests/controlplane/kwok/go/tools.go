//go:build tools

// Package tools pins kwok, the kubelet simulator of the real control plane in the tests.
package tools

import _ "sigs.k8s.io/kwok/cmd/kwok"
