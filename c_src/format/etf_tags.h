/* SPDX-License-Identifier: Apache-2.0
 *
 * Tags of the external term format.
 */
#ifndef KYMO_ETF_TAGS_H
#define KYMO_ETF_TAGS_H

enum tag {
    T_NEW_FLOAT = 70,
    T_BIT_BINARY = 77,
    T_NEW_PID = 88,
    T_NEW_PORT = 89,
    T_NEWER_REF = 90,
    T_SMALL_INT = 97,
    T_INT = 98,
    T_FLOAT = 99,
    T_ATOM = 100,
    T_PORT = 102,
    T_PID = 103,
    T_SMALL_TUPLE = 104,
    T_TUPLE = 105,
    T_NIL = 106,
    T_STRING = 107,
    T_LIST = 108,
    T_BINARY = 109,
    T_SMALL_BIG = 110,
    T_BIG = 111,
    T_NEW_FUN = 112,
    T_EXPORT = 113,
    T_NEW_REF = 114,
    T_SMALL_ATOM = 115,
    T_MAP = 116,
    T_UTF8_ATOM = 118,
    T_SMALL_UTF8_ATOM = 119,
    T_V4_PORT = 120
};

#endif
