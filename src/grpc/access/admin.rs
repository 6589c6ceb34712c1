//! Access to the admin pages.

use hyper::{HeaderMap, header::AUTHORIZATION};

use super::{Access, Credentials, Denial, Permission, Service, audit};

impl Access {
    /// Checks the token in the headers of a request for an admin page. Its caller needs the
    /// permission `read` in every namespace, and no globs of names. The error is whether the token
    /// is valid, and the reason.
    pub fn check_admin(&self, headers: &HeaderMap) -> Result<(), (bool, String)> {
        let refused = |denial: Denial| {
            audit::refused("", "", "admin pages", "", denial.reason());
            (false, denial.status().message().to_owned())
        };
        let values = headers.get_all(AUTHORIZATION);
        let value = match (values.iter().next(), values.iter().nth(1)) {
            (Some(value), None) => value.as_bytes(),
            (None, _) => return Err(refused(Denial::Missing)),
            _ => return Err(refused(Denial::Malformed)),
        };
        let credentials = Credentials::Authorization(value.into());
        let memo = self.authenticate(credentials, self.generation()).map_err(refused)?;
        let mut grants = memo.caller.grants.iter();
        let may_read = grants.any(|(namespace, permissions)| {
            namespace.is_none() && permissions.contain(Permission::Read)
        });
        let may_read = may_read && memo.caller.services.contain(Service::Admin);
        match may_read && memo.caller.names.is_none() {
            true => Ok(()),
            false => {
                let denial = Denial::Service(Service::Admin);
                audit::refused(&memo.caller.name, "", "admin pages", "", denial.reason());
                Err((true, "requires a caller that may read in every namespace".to_owned()))
            }
        }
    }
}
