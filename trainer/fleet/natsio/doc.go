// Package natsio carries a fleet's jobs, results and blobs between processes and machines, by NATS JetStream. The
// server is part of the program: the trainer starts it, and there is nothing to install.
//
//	b, err := natsio.Listen(natsio.Address{Listen: "0.0.0.0:4222", Dir: dir, Run: "poster"})
//	f := fleet.New(fleet.Options{Hub: b.Hub, ...})       // the trainer
//	l, err := natsio.Join(ctx, "run/join", "worker-7")   // a worker
//
// Start with names.go: what is called how, and what of it a worker may touch. hub.go is the trainer's end, link.go a
// worker's; server.go starts the server and checks who may come in, and what for: the build tag nobroker leaves
// both out. peers.go takes blobs past the server. join.go is the file by which a worker is let in, and identity.go what
// it is made of.
//
// Nothing that the server holds is the truth. What it loses (Jepsen found acknowledged writes lost after a power
// failure, and its default is to sync every two minutes) is offered again by the scheduler, and so is all of it
// where it begins anew. So everything is held in memory, once, and acknowledged when it is taken; leases are the
// trainer's business. Streams that are not there are made again.
package natsio
