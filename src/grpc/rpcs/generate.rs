//! Generates the table of RPCs from the compiled descriptors and their options
//! (`proto/tollgate/v1/options.proto`). The build script runs this module; tests run it on
//! descriptors without options.

mod options;

use std::{collections::BTreeSet, fmt::Write};

use prost_reflect::{DescriptorPool, Kind, MessageDescriptor};

use self::options::{ENVOY, OptionReader};

/// The package of our own services.
const PACKAGE: &str = "tollgate.v1";
/// Maximum number of bounded fields in one message, because a scan keeps its counters on the stack.
const FIELDS_MAX: usize = 2;

/// RPCs of services that tonic's crates implement. Their descriptors are not in `proto/`, and they
/// need no permission.
const LIBRARY_RPCS: [(&str, &str, &str); 5] = [
    ("grpc.health.v1.Health", "Check", "unary"),
    ("grpc.health.v1.Health", "List", "unary"),
    ("grpc.health.v1.Health", "Watch", "server_stream"),
    ("grpc.reflection.v1.ServerReflection", "ServerReflectionInfo", "bidi_stream"),
    ("grpc.reflection.v1alpha.ServerReflection", "ServerReflectionInfo", "bidi_stream"),
];

/// The route of RPCs that the program does not implement.
const OTHER_ROUTE: &str =
    "service: None, fast_path: None, frees_capacity: false, is_listing: false";

/// A service with its RPCs.
struct ServiceSpec {
    /// The name in Rust, such as `Stock` for `StockService`.
    name: String,
    /// The name in URL paths, including the package.
    full_name: String,
    rpcs: Vec<RpcSpec>,
}

/// An RPC with its options.
struct RpcSpec {
    name: String,
    permission: &'static str,
    is_watch: bool,
    frees_capacity: bool,
    is_fast: bool,
    is_counted: bool,
    request: MessageDescriptor,
}

/// A field whose elements are counted, or whose message contains such fields.
struct FieldSpec {
    name: String,
    number: u32,
    /// Minimum and maximum of a repeated field.
    bounds: Option<(u32, u32)>,
    inside: Vec<FieldSpec>,
}

/// The generated code.
pub(crate) struct Generated {
    /// For the module `grpc::rpcs`.
    pub(crate) rpcs: String,
    /// For the module `grpc::elements`.
    pub(crate) requests: String,
    /// For the module `grpc::fast_paths`.
    pub(crate) fast_paths: String,
    /// For the module `grpc::verbs`.
    pub(crate) verbs: String,
}

/// Generates the code. Fails with a line for each missing or contradictory option.
pub(crate) fn generate(pool: &DescriptorPool) -> Result<Generated, String> {
    let mut reader = OptionReader::new(pool);
    let mut ours: Vec<_> =
        pool.services().filter(|service| service.package_name() == PACKAGE).collect();
    ours.sort_by_key(|service| service.name().to_owned());
    let envoy = pool.get_service_by_name(ENVOY);
    let services: Vec<ServiceSpec> = (ours.into_iter().chain(envoy))
        .map(|service| ServiceSpec {
            name: reader.service_name(service.name(), service.full_name()),
            full_name: service.full_name().to_owned(),
            rpcs: service.methods().map(|method| reader.rpc(&method)).collect(),
        })
        .collect();
    let mut rpcs = enumeration(&services);
    table(&mut rpcs, &services);
    let generated = Generated {
        rpcs,
        requests: requests(&services, &mut reader),
        fast_paths: fast_paths(&services),
        verbs: verbs(&services),
    };
    let problems = reader.problems();
    if problems.is_empty() { Ok(generated) } else { Err(problems) }
}

/// Appends a line of code. Writing to a `String` cannot fail.
macro_rules! push {
    ($code:expr, $($text:tt)*) => {
        let _ = writeln!($code, $($text)*);
    };
}

/// Generates the enum of services.
fn enumeration(services: &[ServiceSpec]) -> String {
    let mut code = String::new();
    push!(code, "/// A service of Tollgate.");
    push!(code, "#[derive(Debug, Clone, Copy, PartialEq, Eq)]\npub enum Service {{");
    for ServiceSpec { name, full_name, .. } in services {
        push!(code, "/// `{full_name}`.\n{name},");
    }
    push!(code, "}}\nimpl Service {{\n/// All services.");
    push!(code, "pub const ALL: [Service; {}] = [", services.len());
    for ServiceSpec { name, .. } in services {
        push!(code, "Service::{name},");
    }
    push!(code, "];\n/// The name in the configuration and in errors.");
    push!(code, "pub const fn name(self) -> &'static str {{\nmatch self {{");
    for ServiceSpec { name, .. } in services {
        push!(code, "Service::{name} => {:?},", name.to_lowercase());
    }
    push!(code, "}}\n}}\n/// The name in paths of calls, with its package.");
    push!(code, "pub(crate) const fn full_name(self) -> &'static str {{\nmatch self {{");
    for ServiceSpec { name, full_name, .. } in services {
        push!(code, "Service::{name} => {full_name:?},");
    }
    push!(code, "}}\n}}\n}}");
    code
}

/// Generates the table of RPCs. Row 0 stands for unknown RPCs.
fn table(code: &mut String, services: &[ServiceSpec]) {
    let ours: usize = services.iter().map(|service| service.rpcs.len()).sum();
    push!(
        code,
        "/// All RPCs. The position of an RPC is that of its counters; row 0 stands for all"
    );
    push!(code, "/// unknown ones.");
    push!(code, "static RPCS: [KnownRpc; {}] = [", 1 + ours + LIBRARY_RPCS.len());
    let mut position = 0;
    let mut row = |labels: [&str; 3], kind: &str, route: &str, rpc: &str| {
        let [path, service, method] = labels;
        push!(code, "KnownRpc {{ route: Route {{ position: {position}, {route} }}, ");
        push!(code, "labels: RpcLabels {{ path: {path:?}, service: {service:?}, ");
        push!(code, "method: {method:?}, kind: {kind:?} }}, rpc: {rpc} }},");
        position += 1;
    };
    row(["", "unknown", "unknown"], "unary", OTHER_ROUTE, "None");
    for ServiceSpec { name: service, full_name, rpcs } in services {
        for (number, rpc) in rpcs.iter().enumerate() {
            let RpcSpec { name, permission, is_watch, frees_capacity, is_fast, .. } = rpc;
            let (fast_path, is_listing) = (is_fast.then_some(number), name.starts_with("List"));
            let route = format!(
                "service: Some(Service::{service} as usize), fast_path: {fast_path:?}, \
                 frees_capacity: {frees_capacity}, is_listing: {is_listing}"
            );
            let rpc = format!(
                "Some(Rpc {{ service: Service::{service}, name: {name:?}, permission: \
                 Permission::{permission}, is_watch: {is_watch} }})"
            );
            let kind = if *is_watch { "server_stream" } else { "unary" };
            row([&format!("/{full_name}/{name}"), full_name, name], kind, &route, &rpc);
        }
    }
    for (service, method, kind) in LIBRARY_RPCS {
        let path = format!("/{service}/{method}");
        row([&path, service, method], kind, OTHER_ROUTE, "None");
    }
    push!(code, "];");
}

/// Generates the handlers of the RPCs on the fast path, by their position in the service.
fn fast_paths(services: &[ServiceSpec]) -> String {
    let mut code = String::new();
    for ServiceSpec { name, rpcs, .. } in services {
        let fast: Vec<_> = rpcs.iter().enumerate().filter(|(_, rpc)| rpc.is_fast).collect();
        if !fast.is_empty() {
            push!(code, "fast_path!(super::{name}Handlers, {{");
            for (number, rpc) in fast {
                push!(code, "{number} => {},", snake_case(&rpc.name));
            }
            push!(code, "}});");
        }
    }
    code
}

/// Generates the bounded fields of each request, and the bounds as constants for the parsers.
fn requests(services: &[ServiceSpec], reader: &mut OptionReader) -> String {
    let mut code = String::new();
    let (mut done, mut bounds) = (BTreeSet::new(), BTreeSet::new());
    for RpcSpec { request, .. } in services.iter().flat_map(|service| &service.rpcs) {
        if !done.insert(request.full_name().to_owned()) {
            continue;
        }
        let fields = reader.fields(request, &mut Vec::new());
        constants(request, &fields, &mut bounds);
        let module = if request.package_name() == PACKAGE { "pb" } else { "envoy_pb" };
        push!(code, "impl Request for super::{module}::{} {{", request.name());
        if !fields.is_empty() {
            push!(code, "const FIELDS: &'static [Field] = {};", literal(&fields));
        }
        if let [FieldSpec { name, bounds: Some(_), .. }] = &*fields {
            push!(code, "fn reserve(&mut self, elements: usize) {{");
            push!(code, "self.{name}.reserve_exact(elements);\n}}");
        }
        push!(code, "}}");
    }
    push!(code, "/// Maximum number of bounded fields of one message.");
    push!(code, "const FIELDS_MAX: usize = {FIELDS_MAX};");
    push!(code, "/// The numbers of elements that repeated fields of requests may have.");
    push!(code, "pub(super) mod bounds {{\nuse std::ops::RangeInclusive;");
    bounds.iter().for_each(|constant| {
        push!(code, "{constant}");
    });
    push!(code, "}}");
    code
}

/// Collects a constant for each bound, such as `RULE_LIMITS` for `Rule.limits`.
fn constants(message: &MessageDescriptor, fields: &[FieldSpec], bounds: &mut BTreeSet<String>) {
    for FieldSpec { name, bounds: own, inside, .. } in fields {
        if let Some((least, most)) = own {
            let constant = snake_case(&format!("{}_{name}", message.name())).to_uppercase();
            bounds.insert(format!(
                "/// `{}.{name}`.\npub(in super::super) const {constant}: RangeInclusive<usize> = \
                 {least}..={most};",
                message.name()
            ));
        }
        let field = message.get_field_by_name(name).map(|field| field.kind());
        if let Some(Kind::Message(message)) = field {
            constants(&message, inside, bounds);
        }
    }
}

fn literal(fields: &[FieldSpec]) -> String {
    let fields = fields.iter().map(|FieldSpec { name, number, bounds, inside }| {
        let elements = match bounds {
            Some((least, most)) => format!("Some({least}..={most})"),
            None => "None".to_owned(),
        };
        let inside = literal(inside);
        format!("Field {{ name: {name:?}, tag: {number}, elements: {elements}, inside: {inside} }}")
    });
    format!("&[{}]", fields.collect::<Vec<_>>().join(", "))
}

/// Generates the list of verbs whose outcomes are counted, as types of `tollgate_core`. A batch
/// counts its items.
fn verbs(services: &[ServiceSpec]) -> String {
    let mut verbs = BTreeSet::new();
    for ServiceSpec { name: service, rpcs, .. } in services {
        for RpcSpec { name, request, .. } in rpcs.iter().filter(|rpc| rpc.is_counted) {
            let is_batch = request.fields().any(|field| field.is_list());
            let verb = name.strip_suffix('s').filter(|_| is_batch).unwrap_or(name);
            verbs.insert(format!("CountedVerb::of::<{}::{verb}>()", service.to_lowercase()));
        }
    }
    format!("vec![{}]", verbs.into_iter().collect::<Vec<_>>().join(",\n"))
}

/// Converts `ReserveStock` to `reserve_stock`, the name of the method in the generated traits.
fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for (at, letter) in name.char_indices() {
        if letter.is_uppercase() && at > 0 && !snake.ends_with('_') {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}
