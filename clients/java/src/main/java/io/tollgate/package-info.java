/** Client of Tollgate. {@link io.tollgate.Tollgate} is the entry. */
package io.tollgate;
