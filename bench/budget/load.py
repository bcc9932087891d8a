# SPDX-License-Identifier: Apache-2.0
#
# A client of RabbitMQ, for benchmarks: load.py PORT. It publishes to a queue of its own and
# consumes from it, with a hundred messages in flight. Each input line is a number of seconds:
# the client runs for that long and then prints the number of messages that came back.
import sys
import time

import pika

connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", int(sys.argv[1])))
channel = connection.channel()
queue = channel.queue_declare(queue="", exclusive=True).method.queue
body = b"x" * 100


def publish(n):
    for _ in range(n):
        channel.basic_publish(exchange="", routing_key=queue, body=body)


publish(100)
print("ready", flush=True)
for line in sys.stdin:
    count, end = 0, time.monotonic() + float(line)
    for _ in channel.consume(queue, auto_ack=True):
        count += 1
        publish(1)
        if time.monotonic() > end:
            break
    print(count, flush=True)
