/** Rate limits of web servers; needs jakarta.servlet-api 6. */
package io.tollgate.servlet;
