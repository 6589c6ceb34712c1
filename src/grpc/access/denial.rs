//! The reasons why a call is rejected, and the answers. No answer depends on the name or the state
//! that the call is about.

use std::collections::HashMap;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use super::super::{
    rpcs::{Permission, Service},
    status::DOMAIN,
};

/// Why a call is rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum Denial {
    /// No `authorization` and no certificate.
    Missing,
    /// `authorization` is not a single `Bearer TOKEN`.
    Malformed,
    /// No caller has this token.
    TokenUnknown,
    /// The certificate, or the claims of the JWT, match no caller.
    CallerUnknown,
    /// The names of the certificate, or the claims of the JWT, match several callers.
    CallerAmbiguous,
    /// The JWT is malformed, uses an algorithm that is not accepted, or has an invalid signature.
    JwtInvalid,
    /// The key of the JWT is not in the key set.
    JwtKeyUnknown,
    /// The JWT has expired.
    JwtExpired,
    /// The JWT is not valid yet.
    JwtNotYetValid,
    /// The JWT comes from another issuer.
    JwtIssuer,
    /// The JWT is for another audience.
    JwtAudience,
    /// The caller of a stream has lost its credentials or its rights.
    Ended,
    /// The caller lacks a permission.
    Permission(Permission),
    /// The caller may not call a service.
    Service(Service),
    /// The caller may not use the namespace that it requests.
    Namespace,
    /// `x-tollgate-namespace` is not a valid namespace.
    NamespaceMalformed(&'static str),
}

impl Denial {
    /// Returns the code of the answer.
    pub(in super::super) fn code(&self) -> Code {
        match self {
            Denial::Permission(_) | Denial::Service(_) | Denial::Namespace => {
                Code::PermissionDenied
            }
            Denial::NamespaceMalformed(_) => Code::InvalidArgument,
            _ => Code::Unauthenticated,
        }
    }

    /// Returns the reason in the details of the answer.
    pub(in super::super) fn reason(&self) -> &'static str {
        match self {
            Denial::Missing => "CREDENTIALS_MISSING",
            Denial::Malformed => "AUTHORIZATION_MALFORMED",
            Denial::TokenUnknown => "TOKEN_UNKNOWN",
            Denial::CallerUnknown => "CALLER_UNKNOWN",
            Denial::CallerAmbiguous => "CALLER_AMBIGUOUS",
            Denial::JwtInvalid => "JWT_INVALID",
            Denial::JwtKeyUnknown => "JWT_KEY_UNKNOWN",
            Denial::JwtExpired => "JWT_EXPIRED",
            Denial::JwtNotYetValid => "JWT_NOT_YET_VALID",
            Denial::JwtIssuer => "JWT_ISSUER_WRONG",
            Denial::JwtAudience => "JWT_AUDIENCE_WRONG",
            Denial::Ended => "CREDENTIALS_ENDED",
            Denial::Permission(_) => "PERMISSION_MISSING",
            Denial::Service(_) => "SERVICE_NOT_PERMITTED",
            Denial::Namespace => "NAMESPACE_NOT_PERMITTED",
            Denial::NamespaceMalformed(_) => "NAMESPACE_MALFORMED",
        }
    }

    fn message(&self) -> String {
        let message = match self {
            Denial::Missing => {
                "this server authenticates its callers: send `authorization: Bearer TOKEN`, or \
                 connect with a client certificate"
            }
            Denial::Malformed => "authorization must be one value of the form `Bearer TOKEN`",
            Denial::TokenUnknown => "no caller of this server has this token",
            Denial::CallerUnknown => "no caller of this server has these credentials",
            Denial::CallerAmbiguous => "several callers of this server have these credentials",
            Denial::JwtInvalid => {
                "the JWT is malformed, uses an algorithm that is not accepted, or has an invalid \
                 signature"
            }
            Denial::JwtKeyUnknown => "the key of the JWT (kid) is not in the key set",
            Denial::JwtExpired => "the JWT has expired; get a new one",
            Denial::JwtNotYetValid => "the JWT is not valid yet (nbf)",
            Denial::JwtIssuer => "the JWT comes from another issuer (iss)",
            Denial::JwtAudience => "the JWT is for another audience (aud)",
            Denial::Ended => {
                return "the credentials of this stream have expired, or the rights of its caller \
                    have changed; open it again at the last cursor"
                    .to_owned();
            }
            Denial::Permission(permission) => {
                return format!(
                    "the caller lacks the permission `{permission}`; nothing was executed"
                );
            }
            Denial::Service(service) => {
                return format!(
                    "the caller may not use the service `{service}`; nothing was executed"
                );
            }
            Denial::Namespace => "the caller may not use this namespace",
            Denial::NamespaceMalformed(expected) => {
                return format!("x-tollgate-namespace {expected}; nothing was executed");
            }
        };
        format!("{message}; nothing was executed")
    }

    /// Builds the answer.
    pub(in super::super) fn status(&self) -> Status {
        let mut metadata = HashMap::new();
        let missing = match self {
            Denial::Permission(permission) => Some(("permission", permission.name())),
            Denial::Service(service) => Some(("service", service.name())),
            _ => None,
        };
        metadata.extend(missing.map(|(key, value)| (key.to_owned(), value.to_owned())));
        let details = ErrorDetails::with_error_info(self.reason(), DOMAIN, metadata);
        Status::with_error_details(self.code(), self.message(), details)
    }
}
