# SPDX-License-Identifier: Apache-2.0
#
# A client of RabbitMQ, for bench/budget_run: load.py PORT SECONDS. It publishes to a queue
# of its own and consumes from it, a hundred messages in flight, and writes how many came
# back in that time.
import sys
import time

import pika

port, seconds = int(sys.argv[1]), float(sys.argv[2])
connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
channel = connection.channel()
queue = channel.queue_declare(queue="", exclusive=True).method.queue
body = b"x" * 100


def publish(n):
    for _ in range(n):
        channel.basic_publish(exchange="", routing_key=queue, body=body)


publish(100)
print("ready", flush=True)
sys.stdin.readline()
count, end = 0, time.monotonic() + seconds
for _ in channel.consume(queue, auto_ack=True):
    count += 1
    publish(1)
    if time.monotonic() > end:
        break
print(count, flush=True)
