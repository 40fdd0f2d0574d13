// Command bench measures prebind against the stock scheduler on one embedded
// control plane, whose programs run as in production: prebind as its own process
// under its ServiceAccount, request rates at their defaults unless a scenario
// says otherwise.
//
//	bench all -quick -out DIR              every scenario, then memory and start
//	bench all -only burst-20,scale -keep -out DIR    some of them once more
//	bench idle|one -pods 20 -variants stock,full     pods one at a time
//	bench burst -nodes 200 -volumes 10 -pods 40 -cm-qps 2000 -variants full/Direct
//	bench plain -pods 1000                 pods without claims
//	bench scale -nodes 500 -claims 10000   memory, and time from start to ready
//	bench render -out DIR -page FILE       tables and plots from DIR/bench.json
//
// A scenario is measured with each variant in turn: the stock scheduler, and
// prebind in its registration modes with either completion. etcd and the API
// server run on; the controller manager, prebind and the scheduler start afresh
// for each series. Between two of them the volumes that were used are made new,
// so all find the same cluster, and the same claims by the same seed.
package main
