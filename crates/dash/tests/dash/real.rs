//! Packets through the whole configuration of a DPU of the public scale test: every ENI reaches what its
//! network has mappings for, with its own network's VNI.

use std::io::Read;
use std::path::PathBuf;

use flate2::read::GzDecoder;
use twinpath_core::Instant;
use twinpath_core::wire::tcp::flags;
use twinpath_core::wire::tunnel::{Encapsulation, Outer, Tunnel, VXLAN_PORT, Varying};
use twinpath_core::wire::{Address, Endpoint, MacAddress, PacketBuilder, dissect, fields};
use twinpath_dash::config::Store;
use twinpath_dash::{Dpu, Files, Reason, Settings, Verdict};

const HEADROOM: usize = 64;

fn store(dpu: &str) -> Option<Store> {
    let archive = twinpath_captures::shared("dash")?.join(format!("{dpu}.tar.gz"));
    let archive = std::fs::File::open(archive).expect("an archive");
    let mut archive = tar::Archive::new(GzDecoder::new(archive));
    let mut files: Vec<(PathBuf, Vec<u8>)> = Vec::new();
    for entry in archive.entries().expect("a list of files") {
        let mut entry = entry.expect("a file");
        let path = entry.path().expect("a name").into_owned();
        if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).expect("its bytes");
            files.push((path, bytes));
        }
    }
    files.sort();
    let (mut read, mut store) = (Files::default(), Store::default());
    files
        .into_iter()
        .for_each(|(path, bytes)| read.add_text(path, &bytes));
    store.apply(read.changes);
    Some(store)
}

fn segment(host: Address, vip: Address, mac: MacAddress, destination: Address) -> Vec<u8> {
    let machine = Endpoint::v4([1, 1, 0, 1], 5000);
    let inner = PacketBuilder::tcp(machine, Endpoint::new(destination, 80));
    let inner = inner.flags(flags::SYN).macs(mac, MacAddress([2; 6]));
    let inner = inner.to_vec().expect("a packet");
    let outer = Outer {
        source_mac: MacAddress([4; 6]),
        destination_mac: MacAddress([6; 6]),
        source: host,
        destination: vip,
        encapsulation: Encapsulation::Vxlan,
        key: 1,
        vxlan_port: VXLAN_PORT,
        ttl: 64,
    };
    let mut buffer = vec![0; HEADROOM + outer.header_bytes()];
    buffer.extend_from_slice(&inner);
    outer
        .emit(&Varying::default(), &mut buffer[HEADROOM..])
        .expect("sound");
    buffer
}

#[test]
fn every_eni_reaches_its_own_networks_mappings() {
    let Some(store) = store("dpu0") else { return };
    let snapshot = store.snapshot();
    let configuration = &snapshot.configuration;
    let mut keys = Vec::new();
    configuration.for_each(&mut |object| keys.push(object.key()));
    let settings = Settings {
        flows: 1 << 16,
        ..Settings::default()
    };
    let mut dpu = Dpu::new(settings, 1);
    dpu.update(configuration, &keys);
    let memory = dpu.tables().memory_use();
    assert_eq!(
        (memory.routes.number, memory.mappings.number),
        (20_480, 20_512)
    );
    let (routes, mappings) = (
        memory.routes.bytes / memory.routes.number,
        memory.mappings.bytes / memory.mappings.number,
    );
    assert!(
        routes < 64 && mappings < 80,
        "{routes} bytes a route, {mappings} a mapping"
    );

    let vip = configuration.appliances.values().next().expect("one").sip;
    let (mut sent, mut refused) = (0, 0);
    for table in configuration.enis.values() {
        let eni = &table.eni;
        let vnet = configuration.vnets.get(&eni.vnet).expect("there");
        let host = eni.underlay_ip.expect("a host");
        for (address, mapping) in vnet.mappings() {
            let mut buffer = segment(host, vip, eni.mac_address, address);
            match dpu.process(&mut buffer, HEADROOM, Instant(1)) {
                Verdict::Forward(frame) => {
                    let frame = &buffer[frame];
                    let layout = dissect(frame).expect("sound");
                    assert_eq!(
                        fields::destination_address(frame, &layout),
                        mapping.underlay_ip
                    );
                    let tunnel = Tunnel::read(frame, &layout, VXLAN_PORT).expect("a tunnel");
                    assert_eq!(tunnel.key, vnet.vnet.vni.get());
                    let inner = &frame[tunnel.inner()];
                    assert_eq!(Some(fields::destination_mac(inner)), mapping.mac_address);
                    sent += 1;
                }
                // Mappings of the machines themselves: no route leads to them.
                Verdict::Drop(Reason::RouteMiss) => refused += 1,
                other => panic!("{address}: {other:?}"),
            }
        }
        let counters = dpu.counters(&eni.eni_id.as_ref().into()).expect("there");
        assert_eq!(counters.drops.total(), counters.drops.of(Reason::RouteMiss));
    }
    assert!(
        sent >= 20_000 && refused <= 64,
        "{sent} sent, {refused} refused"
    );
    assert_eq!(dpu.flow_count(), sent);
}
