//! The service and the permission of every rpc.
//!
//! A test compares the tables with the proto files. Permissions do not include each other: `manage`
//! alone reads nothing.

use std::fmt;

/// What a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// Calls that take, keep or give back: AdmitTask, CheckRate, NextSequence.
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

    /// The name in the configuration, in tokens and in errors.
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

/// A service of Tollgate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// `AdmissionService`.
    Admission,
    /// `RateService`.
    Rate,
    /// `SequenceService`.
    Sequence,
    /// `LockService`.
    Lock,
    /// `StockService`.
    Stock,
    /// `AdminService`.
    Admin,
    /// Envoy's `RateLimitService`.
    Envoy,
}

/// The full name of Envoy's service.
const ENVOY_NAME: &str = "envoy.service.ratelimit.v3.RateLimitService";

impl Service {
    /// All services.
    pub const ALL: [Service; 7] = [
        Service::Admission,
        Service::Rate,
        Service::Sequence,
        Service::Lock,
        Service::Stock,
        Service::Admin,
        Service::Envoy,
    ];

    /// The name in the configuration and in errors.
    pub const fn name(self) -> &'static str {
        match self {
            Service::Admission => "admission",
            Service::Rate => "rate",
            Service::Sequence => "sequence",
            Service::Lock => "lock",
            Service::Stock => "stock",
            Service::Admin => "admin",
            Service::Envoy => "envoy",
        }
    }

    /// The name in paths of calls, with its package.
    pub(in super::super) fn full_name(self) -> String {
        if self == Service::Envoy {
            return ENVOY_NAME.to_owned();
        }
        // The service `admission` is `AdmissionService`.
        let (first, rest) = self.name().split_at(1);
        format!("tollgate.v1.{}{rest}Service", first.to_uppercase())
    }

    /// Its rpcs, with the permissions that they need.
    const fn rpcs(self) -> &'static [(&'static str, Permission)] {
        match self {
            Service::Admission => ADMISSION,
            Service::Rate => RATE,
            Service::Sequence => SEQUENCE,
            Service::Lock => LOCK,
            Service::Stock => STOCK,
            Service::Admin => ADMIN,
            Service::Envoy => ENVOY,
        }
    }

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
    /// The set with one more permission.
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

    /// The set with one more service.
    #[must_use]
    pub const fn with(self, service: Service) -> Services {
        Services(self.0 | 1 << service as u8)
    }

    /// Whether the set contains a service.
    pub const fn contain(self, service: Service) -> bool {
        self.0 & 1 << service as u8 != 0
    }
}

/// An rpc: its service, its name and the permission that it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Rpc {
    pub(in super::super) service: Service,
    pub(in super::super) name: &'static str,
    pub(in super::super) permission: Permission,
}

impl Rpc {
    /// Whether the rpc answers with a stream that has no end of its own.
    pub(in super::super) fn is_watch(self) -> bool {
        self.permission == Permission::Read && self.name.starts_with("Watch")
    }
}

use Permission::{Manage, Read, Use};

const ADMISSION: &[(&str, Permission)] = &[
    ("AdmitTask", Use),
    ("CompleteTask", Use),
    ("RenewTask", Use),
    ("AdmitTasks", Use),
    ("CompleteTasks", Use),
    ("RenewTasks", Use),
    ("EnqueueTasks", Use),
    ("CancelTask", Use),
    ("GetPool", Read),
    ("ListPools", Read),
    ("ListLeases", Read),
    ("ListTasks", Read),
    ("WatchPool", Read),
    ("ConfigurePool", Manage),
    ("EvictTask", Manage),
    ("RequeueTask", Manage),
];

const RATE: &[(&str, Permission)] = &[
    ("CheckRate", Use),
    ("CheckRates", Use),
    ("GetKey", Read),
    ("ListBans", Read),
    ("ListPolicies", Read),
    ("WatchRates", Read),
    ("ResetRate", Manage),
    ("Ban", Manage),
    ("Unban", Manage),
];

const SEQUENCE: &[(&str, Permission)] = &[
    ("NextSequence", Use),
    ("GetSequence", Read),
    ("ListSequences", Read),
    ("SetSequenceFloor", Manage),
];

const LOCK: &[(&str, Permission)] = &[
    ("AcquireLock", Use),
    ("RenewLock", Use),
    ("ReleaseLock", Use),
    ("GetLock", Read),
    ("ListLocks", Read),
];

const STOCK: &[(&str, Permission)] = &[
    ("ReserveStock", Use),
    ("ConfirmReservation", Use),
    ("CancelReservation", Use),
    ("GetStock", Read),
    ("ListStock", Read),
    ("SetStock", Manage),
    ("AddStock", Manage),
];

const ADMIN: &[(&str, Permission)] =
    &[("GetStatus", Read), ("ReloadConfig", Manage), ("AcceptStoreLoss", Manage)];

const ENVOY: &[(&str, Permission)] = &[("ShouldRateLimit", Use)];

/// All rpcs.
pub(in super::super) fn all() -> impl Iterator<Item = Rpc> {
    Service::ALL.into_iter().flat_map(|service| {
        service.rpcs().iter().map(move |(name, permission)| Rpc {
            service,
            name,
            permission: *permission,
        })
    })
}

/// Finds the rpc of a URL path. `None` if Tollgate has no such rpc.
pub(in super::super) fn of(path: &str) -> Option<Rpc> {
    let ours = path.strip_prefix("/tollgate.v1.");
    let is_ours = ours.is_some();
    let (service, method) = match ours {
        Some(path) => path.split_once("Service/")?,
        None => path.strip_prefix('/')?.split_once('/')?,
    };
    let service = match service {
        "Admission" if is_ours => Service::Admission,
        "Rate" if is_ours => Service::Rate,
        "Sequence" if is_ours => Service::Sequence,
        "Lock" if is_ours => Service::Lock,
        "Stock" if is_ours => Service::Stock,
        "Admin" if is_ours => Service::Admin,
        ENVOY_NAME => Service::Envoy,
        _ => return None,
    };
    let (name, permission) = service.rpcs().iter().find(|(name, _)| *name == method).copied()?;
    Some(Rpc { service, name, permission })
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use prost_types::FileDescriptorSet;

    use super::{super::super::reflection::DESCRIPTORS, *};

    #[test]
    fn every_rpc_has_a_permission_and_every_row_an_rpc() {
        let set = FileDescriptorSet::decode(DESCRIPTORS).unwrap();
        let mut rpcs = 0;
        for file in set.file.iter().filter(|file| file.package() == "tollgate.v1") {
            for service in &file.service {
                for method in &service.method {
                    rpcs += 1;
                    let path = format!("/tollgate.v1.{}/{}", service.name(), method.name());
                    let rpc = of(&path).unwrap_or_else(|| panic!("{path} has no permission"));
                    assert_eq!(rpc.name, method.name());
                    let reads = ["Get", "List", "Watch"].iter().any(|it| rpc.name.starts_with(it));
                    assert_eq!(reads, rpc.permission == Read, "{path}");
                    assert_eq!(rpc.is_watch(), method.server_streaming(), "{path}");
                    let name = service.name().to_lowercase();
                    assert_eq!(name, format!("{}service", rpc.service), "{path}");
                }
            }
        }
        assert_eq!(
            rpcs,
            [ADMISSION, RATE, SEQUENCE, LOCK, STOCK, ADMIN].map(<[_]>::len).iter().sum::<usize>()
        );
        assert_eq!(of("/tollgate.v1.StockService/Set"), None);
        assert_eq!(of("/grpc.health.v1.Health/Check"), None);
        assert_eq!(of("/Admission/AdmitTask"), None);
        let envoy = of("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit").unwrap();
        assert_eq!((envoy.service, envoy.permission), (Service::Envoy, Use));
    }

    /// The words in quotes or backticks of the lines that contain all of these texts.
    fn listed(path: &str, row: &str) -> Vec<String> {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        let text = std::fs::read_to_string(path).unwrap();
        // A comment of the configuration continues on the next lines, up to its full stop.
        let text = text.replace("\n# ", " ");
        let line = text.lines().find_map(|line| line.split_once(row)).unwrap().1;
        let line = line.split([')', '|', '.']).next().unwrap();
        line.split(',').map(|word| word.trim().trim_matches('"').to_owned()).collect()
    }

    #[test]
    fn j33_the_pages_list_every_service_and_every_call_that_needs_manage() {
        let sorted = |mut words: Vec<String>| {
            words.sort();
            words
        };
        let of = |permission| {
            let rpcs = all().filter(|rpc| rpc.permission == permission);
            sorted(rpcs.map(|rpc| rpc.name.to_owned()).collect())
        };
        assert_eq!(sorted(listed("deploy/tollgate.toml", "\"manage\" (")), of(Manage));
        assert_eq!(sorted(listed("docs/security.md", "| `manage` | ")), of(Manage));
        assert_eq!(sorted(listed("docs/security.md", "| `use` | ")), of(Use));
        let services = Service::ALL.map(|service| service.name().to_owned()).to_vec();
        let named = listed("deploy/tollgate.toml", "Services that it may use: ");
        assert_eq!(sorted(named), sorted(services));
    }

    #[test]
    fn sets_contain_what_was_added() {
        let set = Permissions::default().with(Use).with(Manage);
        assert_eq!(Permission::ALL.map(|it| set.contain(it)), [true, false, true]);
        let set = Services::default().with(Service::Stock);
        assert_eq!(
            Service::ALL.map(|it| set.contain(it)),
            [false, false, false, false, true, false, false]
        );
        assert!(Service::ALL.iter().all(|it| Services::ALL.contain(*it)));
        assert_eq!(Permission::parse("manage"), Some(Manage));
        assert_eq!(Service::parse("rates"), None);
    }
}
