package e2e_test

import (
	"context"

	storagev1 "k8s.io/api/storage/v1"
)

func (w *world) startHelpers(ctx context.Context) (stop func(), err error) { return func() {}, nil }

func (w *world) provisioner() string { return "test.prebind.dev/none" }

func failing(times int, message string) func(*storagev1.StorageClass) {
	return func(*storagev1.StorageClass) {}
}
