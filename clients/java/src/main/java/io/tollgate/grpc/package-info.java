/** Rate limits of gRPC servers. */
package io.tollgate.grpc;
