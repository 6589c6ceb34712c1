/** Auto-configuration of Spring Boot 3 and 4. */
package io.tollgate.spring;
