//! Access to the admin pages.

use hyper::HeaderMap;

use super::{
    Access, Credentials, Denial, Memo, Permission, Service, audit, authorization, callers::Caller,
};

impl Access {
    /// Checks the token in the headers of a request for an admin page. Its caller must have the
    /// permission `read` in every namespace and must not be limited to some names. The error tells
    /// whether the token is valid, with the reason.
    pub fn check_admin(&self, headers: &HeaderMap) -> Result<(), (bool, String)> {
        let refused = |denial: Denial| {
            audit::refused("", "", "admin pages", "", denial.reason());
            (false, denial.status().message().to_owned())
        };
        let memo = self.caller(headers).map_err(refused)?;
        if memo.caller.reads_server() {
            Ok(())
        } else {
            let denial = Denial::Service(Service::Admin);
            audit::refused(&memo.caller.name, "", "admin pages", "", denial.reason());
            Err((true, "requires a caller that may read in every namespace".to_owned()))
        }
    }

    /// Authenticates the credentials in the headers, without checking any rights. The error is the
    /// reason.
    pub(super) fn caller(&self, headers: &HeaderMap) -> Result<Memo, Denial> {
        let value = authorization(headers)?.ok_or(Denial::Missing)?;
        let credentials = Credentials::Authorization(value.into());
        self.authenticate(credentials, self.generation())
    }
}

impl Caller {
    /// Whether the caller may read in every namespace and is not limited to some names.
    pub(super) fn reads_server(&self) -> bool {
        let may_read = self.grants.iter().any(|(namespace, permissions)| {
            namespace.is_none() && permissions.contain(Permission::Read)
        });
        may_read && self.services.contain(Service::Admin) && self.names.is_none()
    }
}
