//! Any lines at the control socket, one after the other: what changes a service leaves one that could
//! be written down, becomes it and goes back; what is refused changes nothing.
#![no_main]
use libfuzzer_sys::fuzz_target;
use std::path::Path;
use twinpath_control::operator::Request;
use twinpath_control::service::Service;
use twinpath_dash::Files;
use twinpath_node::replacement::Replacement;

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

fn changed(service: &Service, request: &Request) -> Option<Service> {
    match request {
        Request::Change { function, change } => service.edited(function.as_deref(), change).ok(),
        Request::List { function, object } => {
            let listed = service.function_with(function.as_deref(), *object).ok();
            listed.map(|(_, function)| function.config.listed(*object));
            None
        }
        Request::Apply { text, path, files } => {
            // Files come with the request, and none from the disk.
            let _ = Service::parse_with(text, path, files);
            None
        }
        Request::DashApply { files } => {
            let mut read = Files::default();
            for (path, text) in files {
                read.add_text(path.clone(), text.as_bytes());
            }
            None
        }
        Request::Rules(_) | Request::EndBinding { .. } | Request::Look(_) | Request::Stream(_) => {
            None
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut service = Service::parse(SERVICE, Path::new("edge.toml")).expect("sound");
    for line in bytes
        .split_inclusive(|byte| *byte == b'\n')
        .take(MOST_CHANGES)
    {
        let Ok(request) = Request::read(line) else {
            continue;
        };
        let Some(new) = changed(&service, &request) else {
            continue;
        };
        let Ok(there) = Replacement::between(&service, &new) else {
            continue;
        };
        assert_eq!(there.is_empty(), new.chain == service.chain);
        assert!(
            Replacement::between(&new, &service).is_ok(),
            "there is a way back"
        );
        service = new;
    }
});
