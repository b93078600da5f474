// An example client and worker of a Wherry server.
//
//	wherry-example enqueue TYPE [PAYLOAD] [KEY]
//	wherry-example work
//
// WHERRY_SERVER is host:port, 127.0.0.1:50051 if not set; WHERRY_TOKEN is sent with every call, if
// set. What any worker has to do: ask for no more than it can start, beat while a handler runs,
// report once, and take "lost" for an answer. A handler may run twice, so it has to be idempotent.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	wherry "example.org/wherry/wherryv1"
)

const (
	slots    = 4
	leaseFor = 15 * time.Second
)

var handlers = map[string]func(ctx context.Context, payload map[string]interface{}) (interface{}, error){
	"go.greet": func(_ context.Context, payload map[string]interface{}) (interface{}, error) {
		return fmt.Sprintf("hello %v", payload["name"]), nil
	},
	"go.fails": func(_ context.Context, payload map[string]interface{}) (interface{}, error) {
		return nil, fmt.Errorf("told to fail: %v", payload["why"])
	},
}

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 {
		log.Fatal("usage: wherry-example enqueue TYPE [PAYLOAD] [KEY] | work")
	}
	address := os.Getenv("WHERRY_SERVER")
	if address == "" {
		address = "127.0.0.1:50051"
	}
	connection, err := grpc.Dial(address, grpc.WithInsecure())
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	client := wherry.NewTaskQueueClient(connection)
	switch os.Args[1] {
	case "enqueue":
		enqueue(client, os.Args[2:])
	case "work":
		work(client)
	default:
		log.Fatalf("no verb %q: enqueue or work", os.Args[1])
	}
}

// asking returns a context with our token and a deadline.
func asking(parent context.Context, within time.Duration) (context.Context, context.CancelFunc) {
	if token := os.Getenv("WHERRY_TOKEN"); token != "" {
		parent = metadata.AppendToOutgoingContext(parent, "authorization", "Bearer "+token)
	}
	return context.WithTimeout(parent, within)
}

func enqueue(client wherry.TaskQueueClient, arguments []string) {
	request := &wherry.EnqueueRequest{}
	switch len(arguments) {
	case 3:
		request.Key = &arguments[2]
		fallthrough
	case 2:
		request.Payload = arguments[1]
		fallthrough
	case 1:
		request.Type = arguments[0]
	default:
		log.Fatal("usage: wherry-example enqueue TYPE [PAYLOAD] [KEY]")
	}
	ctx, cancel := asking(context.Background(), 10*time.Second)
	defer cancel()
	stored, err := client.Enqueue(ctx, request)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("{\"id\": \"%d\", \"created\": %t}\n", stored.GetId(), stored.GetCreated())
}

func work(client wherry.TaskQueueClient) {
	host, _ := os.Hostname()
	me := fmt.Sprintf("go-%s-%d", host, os.Getpid())
	types := []string{}
	for name := range handlers {
		types = append(types, name)
	}
	stopping, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()

	free := make(chan struct{}, slots)
	for n := 0; n < slots; n++ {
		free <- struct{}{}
	}
	var running sync.WaitGroup
	for stopping.Err() == nil {
		// Wait for one slot, then ask for as many tasks as there are free ones.
		select {
		case <-free:
		case <-stopping.Done():
			continue
		}
		wanted := 1 + len(free)
		for n := 1; n < wanted; n++ {
			<-free
		}
		ctx, cancel := asking(stopping, 30*time.Second)
		answer, err := client.Lease(ctx, &wherry.LeaseRequest{
			WorkerId:      me,
			Types:         types,
			MaxTasks:      int32(wanted),
			LeaseDuration: durationpb.New(leaseFor),
			Wait:          durationpb.New(20 * time.Second),
		})
		cancel()
		if err != nil && stopping.Err() == nil {
			log.Printf("lease: %v", err)
			time.Sleep(time.Second)
		}
		for n := len(answer.GetTasks()); n < wanted; n++ {
			free <- struct{}{}
		}
		if answer.GetDirective() == wherry.Directive_DIRECTIVE_STOP {
			stop()
		}
		for _, task := range answer.GetTasks() {
			running.Add(1)
			go func(task *wherry.LeasedTask) {
				defer func() { free <- struct{}{}; running.Done() }()
				run(client, me, task)
			}(task)
		}
	}
	running.Wait()
	ctx, cancel := asking(context.Background(), time.Second)
	defer cancel()
	_, _ = client.LeaveWorker(ctx, &wherry.LeaveWorkerRequest{WorkerId: me})
}

func run(client wherry.TaskQueueClient, me string, task *wherry.LeasedTask) {
	ctx, end := context.WithCancel(context.Background())
	defer end()
	go beat(ctx, end, client, me, task.GetLease())
	var payload map[string]interface{}
	err := json.Unmarshal([]byte(task.GetPayload()), &payload)
	var result interface{}
	if err == nil {
		result, err = handlers[task.GetType()](ctx, payload)
	}
	if err != nil {
		fmt.Printf("%d %s: failed in attempt %d: %v\n", task.GetId(), task.GetType(), task.GetAttempt(), err)
		failure := &wherry.Error{Type: fmt.Sprintf("%T", err), Message: err.Error()}
		report(func(ctx context.Context) error {
			_, err := client.Fail(ctx, &wherry.FailRequest{Lease: task.GetLease(), Error: failure})
			return err
		})
		return
	}
	text, _ := json.Marshal(result)
	stored := string(text)
	report(func(ctx context.Context) error {
		_, err := client.Complete(ctx, &wherry.CompleteRequest{Lease: task.GetLease(), Result: &stored})
		return err
	})
	fmt.Printf("%d %s: done in attempt %d\n", task.GetId(), task.GetType(), task.GetAttempt())
}

// beat extends the lease until ctx ends, and ends the handler if the lease is lost.
func beat(ctx context.Context, end context.CancelFunc, client wherry.TaskQueueClient, me, lease string) {
	ticker := time.NewTicker(leaseFor / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		asked, cancel := asking(ctx, leaseFor/3)
		answer, err := client.Heartbeat(asked, &wherry.HeartbeatRequest{
			WorkerId: me, Leases: []string{lease}, ExtendBy: durationpb.New(leaseFor),
		})
		cancel()
		if err != nil {
			log.Printf("heartbeat: %v", err)
			continue
		}
		switch answer.GetBeats()[0].GetAnswer() {
		case wherry.Reported_REPORTED_LOST, wherry.Reported_REPORTED_CANCEL_REQUESTED:
			end()
		}
	}
}

// report sends until it is known what became of it. The lease makes a repeated report harmless.
func report(send func(context.Context) error) {
	for pause := 100 * time.Millisecond; ; pause *= 2 {
		ctx, cancel := asking(context.Background(), 10*time.Second)
		err := send(ctx)
		cancel()
		switch status.Code(err) {
		case codes.OK:
			return
		case codes.Unavailable, codes.DeadlineExceeded, codes.Aborted:
		default:
			// Somebody else has the task by now, or it can never be stored: its lease runs out.
			log.Printf("report: %v", err)
			return
		}
		if pause > 2*time.Second {
			pause = 2 * time.Second
		}
		time.Sleep(pause)
	}
}
