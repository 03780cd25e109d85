// Package natsio carries a fleet's jobs, results and blobs between processes and machines, by NATS JetStream. The
// server is part of the program: the trainer starts it, and there is nothing to install.
//
//	b, err := natsio.Listen(natsio.Address{Listen: "0.0.0.0:4222", Dir: dir, Run: "poster"})
//	f := fleet.New(fleet.Options{Hub: b.Hub, ...})       // the trainer
//	l, err := natsio.Join(ctx, "run/join", "worker-7")   // a worker
//
// Start with names.go: the names of all subjects, and a worker's permissions. hub.go is the trainer's end, link.go a
// worker's; server.go starts the server and checks connections and their permissions: the build tag nobroker leaves
// both out. peers.go takes blobs past the server. join.go is the file by which a worker is let in, and identity.go
// has its keys.
//
// Nothing that the server holds is the truth. The scheduler offers again all that it loses (Jepsen found acknowledged
// writes lost after a power failure, and its default is to sync every two minutes), and everything where it begins
// anew. So everything is held in memory, once, and acknowledged when it is taken; leases are the trainer's business.
// Streams that are not there are made again.
package natsio
