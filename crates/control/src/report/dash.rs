//! A DPU's counters, as the report has them.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// What a DPU did with packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dash {
    /// Flows at the end, of all ENIs.
    pub flows: u64,
    /// Dropped packets of no ENI, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Each ENI.
    pub enis: Vec<EniFigures>,
}

/// What was counted of an ENI's packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EniFigures {
    /// Its name.
    pub eni: String,
    /// Its flows at the end.
    pub flows: u64,
    /// From its machine.
    pub outbound: DirectionFigures,
    /// To its machine.
    pub inbound: DirectionFigures,
    /// Packets of known flows.
    pub flow_hits: u64,
    /// Packets of none.
    pub flow_misses: u64,
    /// Flows that were opened.
    pub flows_created: u64,
    /// Flows that policies no longer allow.
    pub flows_removed: u64,
    /// Flows whose connections ended with a RST or the FINs of both ends; they stay a while for what is
    /// under way.
    #[serde(default)]
    pub flows_closed: u64,
    /// Flows that ended by time alone.
    pub flows_aged: u64,
    /// Flows that were judged anew after a change of policy.
    pub flows_resimulated: u64,
    /// Redirects of load balancers that came.
    pub redirects: u64,
    /// Flows that they moved.
    pub flows_redirected: u64,
    /// Those that were about no flow.
    pub redirects_of_none: u64,
    /// Dropped packets by reason.
    pub drops: BTreeMap<String, u64>,
    /// Bytes by metering class.
    pub meters: Vec<MeterFigures>,
}

/// One direction of an ENI.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectionFigures {
    /// Packets that came.
    pub received_packets: u64,
    /// Their bytes, of inner frames.
    pub received_bytes: u64,
    /// Packets that left.
    pub sent_packets: u64,
    /// Their bytes, of inner frames.
    pub sent_bytes: u64,
}

/// Bytes of a metering class.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeterFigures {
    /// The class.
    pub class: u32,
    /// Bytes from the machine.
    pub outbound_bytes: u64,
    /// Bytes to the machine.
    pub inbound_bytes: u64,
}

/// Drops that SAI has counters for, by the reason's name here.
const DROPS: [(&str, &str); 8] = [
    ("route_miss", "OUTBOUND_ROUTING_ENTRY_MISS"),
    ("mapping_miss", "OUTBOUND_CA_PA_ENTRY_MISS"),
    ("inbound_route_miss", "INBOUND_ROUTING_ENTRY_MISS"),
    ("route_group_miss", "OUTBOUND_ROUTING_GROUP_MISS"),
    ("port_map_miss", "OUTBOUND_PORT_MAP_MISS"),
    ("port_range_miss", "OUTBOUND_PORT_MAP_PORT_RANGE_ENTRY_MISS"),
    ("untrusted_vni", "ENI_TRUSTED_VNI_ENTRY_MISS"),
    ("pa_validation", "PA_VALIDATION_FAIL"),
];

/// Those of them that say that a table did not lead on: SAI counts them once more, together.
const FORWARDING: [&str; 6] = [
    "route_miss",
    "mapping_miss",
    "inbound_route_miss",
    "route_group_miss",
    "port_map_miss",
    "port_range_miss",
];

/// Drops for which a flow was not made.
const NOT_MADE: [&str; 4] = [
    "flow_limit",
    "connection_rate",
    "flow_table_full",
    "flow_clash",
];

impl EniFigures {
    /// All dropped packets.
    pub fn dropped(&self) -> u64 {
        self.drops.values().sum()
    }

    fn drop(&self, reason: &str) -> u64 {
        self.drops.get(reason).copied().unwrap_or(0)
    }

    /// The counters under the names that SAI gives them. Bytes are of inner frames, where SAI's are
    /// with the tunnel's headers.
    pub fn sai(&self) -> BTreeMap<String, u64> {
        let (out, back) = (&self.outbound, &self.inbound);
        let ways = [
            ("", out, Some(back)),
            ("OUTBOUND_", out, None),
            ("INBOUND_", back, None),
        ];
        let mut counters = BTreeMap::new();
        let mut put = |name: String, count: u64| {
            counters.insert(format!("SAI_ENI_STAT_{name}"), count);
        };
        for (way, one, other) in ways {
            let sum = |of: fn(&DirectionFigures) -> u64| of(one) + other.map_or(0, of);
            put(format!("{way}RX_PACKETS"), sum(|way| way.received_packets));
            put(format!("{way}RX_BYTES"), sum(|way| way.received_bytes));
            put(format!("{way}TX_PACKETS"), sum(|way| way.sent_packets));
            put(format!("{way}TX_BYTES"), sum(|way| way.sent_bytes));
        }
        put("FLOW_CREATED".into(), self.flows_created);
        let not_made = NOT_MADE.iter().map(|reason| self.drop(reason));
        put("FLOW_CREATE_FAILED".into(), not_made.sum());
        put(
            "FLOW_UPDATED_BY_RESIMULATION".into(),
            self.flows_resimulated,
        );
        put(
            "FLOW_DELETED".into(),
            self.flows_removed + self.flows_closed,
        );
        put("LB_FAST_PATH_ICMP_IN_PACKETS".into(), self.redirects);
        put("FLOW_AGED".into(), self.flows_aged);
        for (reason, name) in DROPS {
            put(format!("{name}_DROP_PACKETS"), self.drop(reason));
        }
        let forwarding = FORWARDING.iter().map(|reason| self.drop(reason));
        put("FORWARDING_DROP_PACKETS".into(), forwarding.sum());
        put("TOTAL_DROP_PACKETS".into(), self.dropped());
        counters
    }

    /// Adds what another has counted of the same ENI.
    fn add(&mut self, other: &Self) {
        self.flows += other.flows;
        self.flow_hits += other.flow_hits;
        self.flow_misses += other.flow_misses;
        self.flows_created += other.flows_created;
        self.flows_removed += other.flows_removed;
        self.flows_closed += other.flows_closed;
        self.flows_aged += other.flows_aged;
        self.flows_resimulated += other.flows_resimulated;
        self.redirects += other.redirects;
        self.flows_redirected += other.flows_redirected;
        self.redirects_of_none += other.redirects_of_none;
        for (own, more) in [
            (&mut self.outbound, &other.outbound),
            (&mut self.inbound, &other.inbound),
        ] {
            own.received_packets += more.received_packets;
            own.received_bytes += more.received_bytes;
            own.sent_packets += more.sent_packets;
            own.sent_bytes += more.sent_bytes;
        }
        add_drops(&mut self.drops, &other.drops);
        for more in &other.meters {
            match self.meters.iter_mut().find(|own| own.class == more.class) {
                Some(own) => {
                    own.outbound_bytes += more.outbound_bytes;
                    own.inbound_bytes += more.inbound_bytes;
                }
                None => self.meters.push(*more),
            }
        }
    }
}

impl Dash {
    /// Packets of no ENI that SAI has counters for, under the names that it gives them.
    pub fn sai(&self) -> BTreeMap<String, u64> {
        let drop = |reason: &str| self.drops.get(reason).copied().unwrap_or(0);
        let counters = [("vip_miss", "VIP_MISS"), ("eni_miss", "ENI_MISS")];
        let counters = counters.map(|(reason, name)| {
            let name = format!("SAI_PORT_STAT_{name}_DROP_PACKETS");
            (name, drop(reason))
        });
        BTreeMap::from(counters)
    }

    /// What all ENIs have counted together, and packets of none.
    pub fn totals(&self) -> BTreeMap<String, u64> {
        let sum = |of: fn(&EniFigures) -> u64| self.enis.iter().map(of).sum::<u64>();
        let dropped = self.drops.values().sum::<u64>() + sum(EniFigures::dropped);
        let totals = [
            ("flows", self.flows),
            ("flows_created", sum(|eni| eni.flows_created)),
            ("flows_removed", sum(|eni| eni.flows_removed)),
            ("flows_closed", sum(|eni| eni.flows_closed)),
            ("flows_aged", sum(|eni| eni.flows_aged)),
            ("flows_resimulated", sum(|eni| eni.flows_resimulated)),
            ("flow_hits", sum(|eni| eni.flow_hits)),
            ("flow_misses", sum(|eni| eni.flow_misses)),
            ("dropped", dropped),
        ];
        let totals = totals.into_iter();
        totals.map(|(name, count)| (name.into(), count)).collect()
    }

    /// Adds what another part of the same DPU has counted.
    pub fn add(&mut self, other: &Self) {
        self.flows += other.flows;
        add_drops(&mut self.drops, &other.drops);
        let names = self.enis.iter().enumerate();
        let mut places: HashMap<String, usize> =
            names.map(|(at, own)| (own.eni.clone(), at)).collect();
        for more in &other.enis {
            match places.get(&more.eni).and_then(|at| self.enis.get_mut(*at)) {
                Some(own) => own.add(more),
                None => {
                    places.insert(more.eni.clone(), self.enis.len());
                    self.enis.push(more.clone());
                }
            }
        }
    }
}

fn add_drops(own: &mut BTreeMap<String, u64>, more: &BTreeMap<String, u64>) {
    for (reason, count) in more {
        *own.entry(reason.clone()).or_default() += count;
    }
}

impl MeterFigures {
    /// The counters under the names that SAI gives them.
    pub fn sai(&self) -> [(&'static str, u64); 2] {
        [
            (
                "SAI_METER_BUCKET_ENTRY_STAT_OUTBOUND_BYTES",
                self.outbound_bytes,
            ),
            (
                "SAI_METER_BUCKET_ENTRY_STAT_INBOUND_BYTES",
                self.inbound_bytes,
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn totals_are_of_all_enis_and_of_none() {
        let eni = EniFigures {
            flow_hits: 3,
            drops: BTreeMap::from([("mapping_miss".into(), 2)]),
            ..EniFigures::default()
        };
        let dash = Dash {
            flows: 9,
            drops: BTreeMap::from([("vip_miss".into(), 4)]),
            enis: vec![eni.clone(), eni],
        };
        let totals = dash.totals();
        for (name, count) in [("flows", 9), ("flow_hits", 6), ("dropped", 8)] {
            assert_eq!(totals.get(name), Some(&count), "{name}");
        }
    }

    #[test]
    fn parts_of_many_enis_are_added_by_name() {
        let part = |numbers: std::ops::Range<u64>| Dash {
            enis: numbers
                .map(|number| EniFigures {
                    eni: format!("eni{number}"),
                    flows: number,
                    ..EniFigures::default()
                })
                .collect(),
            ..Dash::default()
        };
        let mut all = part(0..40_000);
        all.add(&part(20_000..60_000));
        assert_eq!(all.enis.len(), 60_000);
        for (number, flows) in [(7, 7), (20_000, 40_000), (59_999, 59_999)] {
            let eni = &all.enis[number];
            assert_eq!((&*eni.eni, eni.flows), (&*format!("eni{number}"), flows));
        }
    }

    /// What is given out stands on the page about conformance, and what that names is given out.
    #[test]
    fn the_page_names_what_is_given_out() {
        let page = include_str!("../../../../docs/dash-conformance.md");
        let from = page.find("## Counters").expect("the table");
        let until = page[from..].find("\n\n## ").expect("more") + from;
        let rows = page[from..until].lines().filter(|line| {
            ["| `", "| the same", "| (of"]
                .iter()
                .any(|first| line.starts_with(first))
        });
        let cells = rows.filter_map(|row| row.split('|').nth(2));
        let names = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
        let told: BTreeSet<String> = names
            .map(|name| match name.starts_with("SAI_") {
                true => name.to_owned(),
                false => format!("SAI_ENI_STAT_{name}"),
            })
            .collect();
        let meter = MeterFigures::default().sai();
        let given: BTreeSet<String> = EniFigures::default()
            .sai()
            .into_keys()
            .chain(Dash::default().sai().into_keys())
            .chain(meter.map(|(name, _)| name.to_owned()))
            .collect();
        assert_eq!(told, given);
    }

    #[test]
    fn counters_have_their_sai_names() {
        let eni = EniFigures {
            outbound: DirectionFigures {
                received_packets: 5,
                sent_packets: 3,
                ..DirectionFigures::default()
            },
            inbound: DirectionFigures {
                received_packets: 2,
                ..DirectionFigures::default()
            },
            redirects: 4,
            drops: BTreeMap::from([("mapping_miss".into(), 2), ("flow_limit".into(), 1)]),
            ..EniFigures::default()
        };
        let of_none = Dash {
            drops: BTreeMap::from([("vip_miss".into(), 4)]),
            ..Dash::default()
        };
        let of_none = of_none.sai();
        assert_eq!(of_none["SAI_PORT_STAT_VIP_MISS_DROP_PACKETS"], 4);
        assert_eq!(of_none["SAI_PORT_STAT_ENI_MISS_DROP_PACKETS"], 0);
        let sai = eni.sai();
        for (name, count) in [
            ("SAI_ENI_STAT_RX_PACKETS", 7),
            ("SAI_ENI_STAT_OUTBOUND_RX_PACKETS", 5),
            ("SAI_ENI_STAT_INBOUND_RX_PACKETS", 2),
            ("SAI_ENI_STAT_OUTBOUND_TX_PACKETS", 3),
            ("SAI_ENI_STAT_OUTBOUND_CA_PA_ENTRY_MISS_DROP_PACKETS", 2),
            ("SAI_ENI_STAT_FLOW_CREATE_FAILED", 1),
            ("SAI_ENI_STAT_LB_FAST_PATH_ICMP_IN_PACKETS", 4),
        ] {
            assert_eq!(sai.get(name), Some(&count), "{name}");
        }
    }
}
