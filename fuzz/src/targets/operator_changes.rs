//! Any lines at the control socket, one after the other: what changes a service leaves one that the running
//! service can become, and go back from; bindings end where there can be any. A DPU's files are read alone:
//! there is none here.

use std::path::Path;
use twinpath_control::operator::Request;
use twinpath_control::service::Service;
use twinpath_core::wire::Endpoint;
use twinpath_dash::Files;
use twinpath_nf::bindings::EndBindings;
use twinpath_nf::edit::Object;
use twinpath_nf::records::Kind;
use twinpath_node::replacement::Replacement;
use twinpath_node::wiring;

const SERVICE: &str = r#"
[service]
chain = ["acl", "napt", "load_balancer", "router"]
inside = ["10.0.0.0/8"]
[acl]
rules = [{ action = "deny", protocol = "tcp", to_port = 25 }, { action = "allow" }]
[napt]
inside = ["10.0.0.0/8"]
external = ["198.51.100.1"]
[load_balancer]
table_size = 13
services = [
    { vip = "192.0.2.1:80", protocol = "tcp", backends = [{ endpoint = "10.1.0.2:80" }, { endpoint = "10.1.0.3:80", drained = true }] },
    { vip = "[2001:db8::1]:53", protocol = "udp", backends = [{ endpoint = "[fd00::1]:53" }] },
]
[router]
most_routes = 20
next_hops = [{ name = "up", mac = "02:00:00:00:01:01", source_mac = "02:00:00:00:00:01", port = 1 }]
routes = [{ to = "any", via = "up" }, { to = "10.0.0.0/8", via = "discard" }]
"#;

/// Backends' counters are never freed.
const MOST_CHANGES: usize = 8;

/// So much more than the service before one may take here: a file can ask for tables of any size.
const MOST_MORE_BYTES: u64 = 256 << 20;

/// The service that a request asks for, if it is one.
fn changed(service: &Service, request: &Request) -> Option<Service> {
    match request {
        Request::Change { function, change } => service.edited(function.as_deref(), change).ok(),
        Request::Apply { text, path, files } => {
            // Files come with the request, and none from the disk.
            let mut new = Service::parse_with(text, path, files).ok()?;
            (new.run, new.seed, new.life) = (service.run, service.seed, service.life);
            new.adopt_adjacencies(service).ok()?;
            let most = bytes(service)? + MOST_MORE_BYTES;
            (bytes(&new)? <= most).then_some(new)
        }
        _ => None,
    }
}

/// What a service takes when all its tables are full.
fn bytes(service: &Service) -> Option<u64> {
    let parts = wiring::memory(service).ok()?;
    Some(parts.iter().map(|part| part.bytes).sum())
}

/// What a request lists of a service, or ends there; files of a DPU are read.
fn asked(service: &Service, request: &Request) {
    match request {
        Request::List { function, object } => {
            let listed = service.function_with(function.as_deref(), *object);
            let _ = listed.map(|(_, function)| function.config.listed(*object));
        }
        Request::DashApply { files } => {
            let mut read = Files::default();
            for (path, text) in files {
                read.add_text(path.clone(), text.as_bytes());
            }
        }
        Request::EndBinding {
            function,
            endpoint,
            protocol,
        } => {
            let kind = protocol.as_deref().map(str::parse).transpose();
            if let (Ok(internal), Ok(kind)) = (endpoint.parse(), kind) {
                end_bindings(service, function.as_deref(), internal, kind);
            }
        }
        _ => {}
    }
}

/// A function that has bindings can end those of any endpoint, and no other function can.
fn end_bindings(service: &Service, name: Option<&str>, internal: Endpoint, kind: Option<Kind>) {
    let Ok((place, function)) = service.function_with(name, Object::Binding) else {
        return;
    };
    let change = function.config.end_bindings(EndBindings { internal, kind });
    assert_eq!(change.is_some(), function.config.has(Object::Binding));
    if let Some(change) = change {
        let plan = Replacement::of_function(service, place, change).expect("the same service");
        assert!(!plan.is_empty(), "an end is a change");
        assert_eq!(plan.applied.changed, [function.name.to_string()]);
    }
}

/// One input.
pub fn run(bytes: &[u8]) {
    let mut service = Service::parse(SERVICE, Path::new("edge.toml")).expect("sound");
    for line in bytes
        .split_inclusive(|byte| *byte == b'\n')
        .take(MOST_CHANGES)
    {
        let Ok(request) = Request::read(&mut &line[..]) else {
            continue;
        };
        asked(&service, &request);
        let Some(new) = changed(&service, &request) else {
            continue;
        };
        let Ok(there) = Replacement::between(&service, &new) else {
            continue;
        };
        let is_same = new.chain == service.chain;
        match request {
            // A file may also say who is inside.
            Request::Apply { .. } => assert!(is_same || !there.is_empty()),
            _ => assert_eq!(there.is_empty(), is_same),
        }
        assert!(
            Replacement::between(&new, &service).is_ok(),
            "there is a way back"
        );
        service = new;
    }
}
