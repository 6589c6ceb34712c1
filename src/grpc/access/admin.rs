//! Access to the admin pages.

use hyper::HeaderMap;

use super::{
    Access, Credentials, Denial, Memo, Permission, Service, audit, authorization, callers::Caller,
};

impl Access {
    /// Checks the token in the headers of a request for an admin page. Its caller needs the
    /// permission `read` in every namespace, and no globs of names. The error is whether the token
    /// is valid, and the reason.
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

    /// Authenticates the credentials in headers, without a check of rights. The error is the reason.
    pub(super) fn caller(&self, headers: &HeaderMap) -> Result<Memo, Denial> {
        let value = authorization(headers)?.ok_or(Denial::Missing)?;
        let credentials = Credentials::Authorization(value.into());
        self.authenticate(credentials, self.generation())
    }
}

impl Caller {
    /// Whether it may read in every namespace, and has no globs of names.
    pub(super) fn reads_server(&self) -> bool {
        let may_read = self.grants.iter().any(|(namespace, permissions)| {
            namespace.is_none() && permissions.contain(Permission::Read)
        });
        may_read && self.services.contain(Service::Admin) && self.names.is_none()
    }
}
