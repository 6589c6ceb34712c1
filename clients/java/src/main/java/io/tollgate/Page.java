package io.tollgate;

import java.util.List;

/**
 * A page of a list.
 *
 * @param items the entries
 * @param nextToken the token of the next page; empty after the last
 */
public record Page<T>(List<T> items, String nextToken) {}
