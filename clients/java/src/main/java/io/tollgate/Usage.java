package io.tollgate;

/**
 * Usage of a pool.
 *
 * @param capacity slots of the pool
 * @param inUse slots held by leases
 * @param available free slots
 * @param overBy slots in use beyond a capacity that was lowered
 */
public record Usage(int capacity, int inUse, int available, int overBy) {
  static Usage of(io.tollgate.v1.Usage usage) {
    return new Usage(
        usage.getCapacity(), usage.getInUse(), usage.getAvailable(), usage.getOverBy());
  }
}
