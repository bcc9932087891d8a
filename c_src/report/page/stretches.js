// SPDX-License-Identifier: Apache-2.0
// What the timeline draws, in order of start: the rows of one kind, and which of them
// lie in a window.

import { stretches } from "./data.js";

export class Rows {
  constructor(columns) {
    this.list = stretches(columns);
    this.inAll = columns.in_all;
    this.longest = 0;
    for (const row of this.list) this.longest = Math.max(this.longest, row.ns);
  }

  // The stretches that overlap from .. to.
  within(from, to) {
    let low = 0;
    let high = this.list.length;
    while (low < high) {
      const mid = (low + high) >> 1;
      if (this.list[mid].start < from - this.longest) low = mid + 1;
      else high = mid;
    }
    const found = [];
    for (let i = low; i < this.list.length && this.list[i].start <= to; i++) {
      if (this.list[i].end >= from) found.push(this.list[i]);
    }
    return found;
  }
}
