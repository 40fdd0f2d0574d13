// Package build makes the Kubernetes objects that tests and benchmarks need,
// in one line each. Every builder starts from an object that is valid as it is,
// changes it in place, and hands it out with Obj:
//
//	build.Node("node-1").Zone("a").Obj()
//	build.Class("local").Obj()                                    // no provisioner, delayed
//	build.Class("fast").Provisioner("example.com/disk").Obj()     // dynamic, delayed
//	build.Volume("disk-1").Class("local").OnNode("node-1").Obj()  // 10Gi
//	build.Claim("shop", "data-0").Class("local").Obj()            // 1Gi
//	build.Pod("shop", "web").Claim("data-0").Ephemeral("scratch", "fast", "1Gi").Obj()
//	build.StatefulSet("shop", "db").Replicas(5).ClaimTemplate("data", "local", "1Gi").Obj()
//
// Functions are pure; a builder belongs to one goroutine. Sizes are quantities
// as in YAML and panic when they cannot be parsed, as a test should.
package build
