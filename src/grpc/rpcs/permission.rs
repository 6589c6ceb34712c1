//! The permissions of callers, and the services that they may call.
//!
//! Permissions do not imply each other: a caller with only `manage` may not read.

use std::fmt;

use super::Service;

/// What a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// Calls that acquire, renew or release something: AdmitTask, CheckRate, NextSequence.
    Use,
    /// Calls that change nothing: Get…, List…, Watch….
    Read,
    /// Calls that change settings, or the state of other callers: ConfigurePool, Ban, SetStock,
    /// SetSequenceFloor, ReloadConfig, AcceptStoreLoss.
    Manage,
}

impl Permission {
    /// All permissions.
    pub const ALL: [Permission; 3] = [Permission::Use, Permission::Read, Permission::Manage];

    /// Returns the name in the configuration, in tokens and in errors.
    pub const fn name(self) -> &'static str {
        match self {
            Permission::Use => "use",
            Permission::Read => "read",
            Permission::Manage => "manage",
        }
    }

    /// Finds a permission by its name.
    pub fn parse(name: &str) -> Option<Permission> {
        Permission::ALL.into_iter().find(|permission| permission.name() == name)
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Service {
    /// Finds a service by its name.
    pub fn parse(name: &str) -> Option<Service> {
        Service::ALL.into_iter().find(|service| service.name() == name)
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Permissions(u8);

impl Permissions {
    /// Returns the set with one more permission.
    #[must_use]
    pub const fn with(self, permission: Permission) -> Permissions {
        Permissions(self.0 | 1 << permission as u8)
    }

    /// Whether the set contains a permission.
    pub const fn contain(self, permission: Permission) -> bool {
        self.0 & 1 << permission as u8 != 0
    }
}

/// A set of services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Services(u8);

impl Services {
    /// All services.
    pub const ALL: Services = Services(u8::MAX);

    /// Returns the set with one more service.
    #[must_use]
    pub const fn with(self, service: Service) -> Services {
        Services(self.0 | 1 << service as u8)
    }

    /// Whether the set contains a service.
    pub const fn contain(self, service: Service) -> bool {
        self.0 & 1 << service as u8 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::{Permission::*, *};

    #[test]
    fn sets_contain_what_was_added() {
        let set = Permissions::default().with(Use).with(Manage);
        assert_eq!(Permission::ALL.map(|it| set.contain(it)), [true, false, true]);
        let set = Services::default().with(Service::Lock);
        assert!(Service::ALL.iter().all(|it| set.contain(*it) == (*it == Service::Lock)));
        assert!(Service::ALL.iter().all(|it| Services::ALL.contain(*it)));
        assert_eq!(Permission::parse("manage"), Some(Manage));
        assert_eq!(Service::parse("rates"), None);
    }
}
