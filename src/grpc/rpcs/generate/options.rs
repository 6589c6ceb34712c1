//! Reads the options of RPCs and fields, and reports those that are missing.

use prost_reflect::{
    DescriptorPool, DynamicMessage, ExtensionDescriptor, FieldDescriptor, Kind, MessageDescriptor,
    MethodDescriptor, Value,
};

use super::{FIELDS_MAX, FieldSpec, PACKAGE, RpcSpec};

/// The file that defines the options.
const OPTIONS: &str = "proto/tollgate/v1/options.proto";

/// The options of Envoy's service are in this file, because its proto files are Envoy's, and
/// clients compile them without our options. A row has the RPC, its permission, and whether it
/// takes the fast path.
pub(super) const ENVOY: &str = "envoy.service.ratelimit.v3.RateLimitService";
const ENVOY_RPCS: [(&str, &str, bool); 1] = [("ShouldRateLimit", "Use", true)];
/// The minimum and maximum number of elements in the repeated fields of Envoy's requests.
const ENVOY_BOUNDS: [(&str, (u32, u32)); 2] = [
    ("envoy.service.ratelimit.v3.RateLimitRequest.descriptors", (1, 100)),
    ("envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.entries", (0, 100)),
];

/// Reads the options, and collects everything that is missing or contradictory.
pub(super) struct OptionReader {
    options: Vec<ExtensionDescriptor>,
    problems: Vec<String>,
}

impl OptionReader {
    /// Creates a reader for the descriptors in `pool`.
    pub(super) fn new(pool: &DescriptorPool) -> OptionReader {
        let options = pool.all_extensions().filter(|it| it.package_name() == PACKAGE).collect();
        OptionReader { options, problems: Vec::new() }
    }

    /// Returns a line for each missing or contradictory option.
    pub(super) fn problems(self) -> String {
        self.problems.join("\n")
    }

    fn problem(&mut self, problem: String) {
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// Returns the name of a service in Rust and in the configuration.
    pub(super) fn service_name(&mut self, name: &str, full_name: &str) -> String {
        if full_name == ENVOY {
            return "Envoy".to_owned();
        }
        let short = name.strip_suffix("Service").unwrap_or_default();
        if short.is_empty() {
            self.problem(format!("{full_name}: rename the service to end in `Service`"));
        }
        short.to_owned()
    }

    /// Returns the value of an option, if it is set.
    fn option(&self, options: &DynamicMessage, name: &str) -> Option<Value> {
        let option = self.options.iter().find(|option| option.name() == name)?;
        options.has_extension(option).then(|| options.get_extension(option).into_owned())
    }

    /// Reads the options of an RPC.
    pub(super) fn rpc(&mut self, method: &MethodDescriptor) -> RpcSpec {
        let service = method.parent_service().full_name().to_owned();
        let path = format!("{service}/{}", method.name());
        let options = method.options();
        let is_set = |name| self.option(&options, name).and_then(|it| it.as_bool()) == Some(true);
        let (frees_capacity, is_counted) = (is_set("frees_capacity"), is_set("counted"));
        let envoy = ENVOY_RPCS.iter().find(|(name, ..)| service == ENVOY && *name == method.name());
        let is_fast = envoy.map_or_else(|| is_set("fast_path"), |(.., is_fast)| *is_fast);
        let permission = self.option(&options, "permission").and_then(|it| it.as_enum_number());
        let permission = match permission {
            Some(1) => Some("Use"),
            Some(2) => Some("Read"),
            Some(3) => Some("Manage"),
            _ => envoy.map(|(_, permission, _)| *permission),
        };
        if permission.is_none() {
            self.problem(if service == ENVOY {
                format!("{path} has no permission: add a row to ENVOY_RPCS in {}", file!())
            } else {
                format!(
                    "{path} has no permission: add `option (permission) = PERMISSION_USE;`, or \
                     PERMISSION_READ or PERMISSION_MANAGE, as {OPTIONS} describes"
                )
            });
        }
        if method.is_client_streaming() {
            self.problem(format!(
                "{path}: streams of requests have no deadline; send single requests"
            ));
        }
        if is_fast && method.is_server_streaming() {
            self.problem(format!("{path} answers with a stream: remove `option (fast_path)`"));
        }
        RpcSpec {
            name: method.name().to_owned(),
            permission: permission.unwrap_or("Use"),
            is_watch: method.is_server_streaming(),
            frees_capacity,
            is_fast,
            is_counted,
            request: method.input(),
        }
    }

    /// Returns the bounded fields of a request or of a message nested in it. `outer` lists the
    /// enclosing messages.
    pub(super) fn fields(
        &mut self,
        message: &MessageDescriptor,
        outer: &mut Vec<String>,
    ) -> Vec<FieldSpec> {
        let name = message.full_name().to_owned();
        if outer.contains(&name) {
            self.problem(format!("{name} contains itself, so its elements cannot be bounded"));
            return Vec::new();
        }
        outer.push(name.clone());
        let fields: Vec<FieldSpec> =
            message.fields().filter_map(|field| self.field(&field, outer)).collect();
        outer.pop();
        let single = fields.iter().filter(|field| field.bounds.is_none()).count();
        if fields.len() > FIELDS_MAX || single > 0 && fields.len() > 1 {
            self.problem(format!(
                "{name}: src/grpc/elements.rs counts either up to {FIELDS_MAX} repeated fields of a \
                 message, or those inside one field that is not repeated; split the message"
            ));
        }
        fields
    }

    /// Returns the field if its elements are counted or its message contains such fields.
    fn field(&mut self, field: &FieldDescriptor, outer: &mut Vec<String>) -> Option<FieldSpec> {
        let inside = match field.kind() {
            Kind::Message(message) => self.fields(&message, outer),
            _ => Vec::new(),
        };
        let is_repeated = field.is_list() || field.is_map();
        if !is_repeated && inside.is_empty() {
            return None;
        }
        let name = field.full_name();
        let options = field.options();
        let number = |name| self.option(&options, name).and_then(|it| it.as_u32());
        let ours = number("max_elements").map(|most| (number("min_elements").unwrap_or(0), most));
        let envoy = ENVOY_BOUNDS.iter().find(|(known, _)| *known == name);
        let bounds = ours.or(envoy.map(|(_, bounds)| *bounds));
        if is_repeated && bounds.is_none_or(|(least, most)| most < least.max(1)) {
            self.problem(if name.starts_with(PACKAGE) {
                format!(
                    "{name} is a repeated field of a request without a bound: add \
                     `[(max_elements) = N]`, as {OPTIONS} describes"
                )
            } else {
                format!(
                    "{name} is a repeated field of a request without a bound: add a row to \
                     ENVOY_BOUNDS in {}",
                    file!()
                )
            });
        }
        Some(FieldSpec {
            name: field.name().to_owned(),
            number: field.number(),
            bounds: is_repeated.then(|| bounds.unwrap_or_default()),
            inside,
        })
    }
}
