/* SPDX-License-Identifier: Apache-2.0
 *
 * The page: HTML, style and script, as report/embed makes them from report/page at build
 * time. A report is the head, the data as JSON in which no < occurs, and the tail.
 */
#ifndef KYMO_REPORT_PAGE_H
#define KYMO_REPORT_PAGE_H

#include <stddef.h>

extern const unsigned char report_page_head[];
extern const size_t report_page_head_size;
extern const unsigned char report_page_tail[];
extern const size_t report_page_tail_size;

#endif
