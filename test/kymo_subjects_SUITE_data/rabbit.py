# SPDX-License-Identifier: Apache-2.0
#
# A client of RabbitMQ, for kymo_subjects_SUITE: rabbit.py PORT QUEUE. It publishes to a
# queue and gets from it, one request after another, until its standard input ends, and
# measures each get. It prints "busy" after the first hundred, and at the end the number
# of messages published, the number of gets, and the nanoseconds of the slowest get.
import select
import sys
import time

import pika

port, queue = int(sys.argv[1]), sys.argv[2]
connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
channel = connection.channel()
channel.queue_declare(queue=queue)
gets, slowest = 0, 0
while gets < 200 or not select.select([sys.stdin], [], [], 0)[0]:
    channel.basic_publish(exchange="", routing_key=queue, body=b"x" * 100)
    start = time.monotonic_ns()
    method, _, _ = channel.basic_get(queue=queue, auto_ack=True)
    slowest = max(slowest, time.monotonic_ns() - start)
    assert method is not None
    gets += 1
    if gets == 100:
        print("busy", flush=True)
connection.close()
print(gets, slowest, flush=True)
