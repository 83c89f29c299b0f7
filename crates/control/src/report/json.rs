//! `report.json`: every number of a run, for programs.
//!
//! Fields keep their name, unit and meaning within one `schema`. A later
//! version may add fields; readers ignore those they do not know. Counts are
//! whole numbers up to 2^64 - 1 and cover the whole run.
//!
//! | field | unit | meaning |
//! |---|---|---|
//! | `schema` | | version of the format: `twinpath-report/1` |
//! | `run.service` | | name of the service |
//! | `run.paths` | | `both`, or `slow` for the slow path alone |
//! | `run.execution` | | `threads`, or `virtual` for one thread under virtual time |
//! | `run.seed` | | seed of everything random |
//! | `run.input` | | capture's file name or generator's name |
//! | `run.workers` | | workers on the slow path |
//! | `run.duration_capture_ns` | ns | first packet's timestamp to the last's |
//! | `run.duration_wall_ns` | ns | first packet read to last written, wall clock |
//! | `run.series_clock` | | clock of `series[].time_ns`: `wall` or `capture` |
//! | `warnings[]` | | what went otherwise than was asked for, in words |
//! | `totals.packets_in` | packets | arrived |
//! | `totals.bytes_in` | bytes | arrived, link-layer header included |
//! | `totals.packets_out` | packets | left |
//! | `totals.bytes_out` | bytes | left |
//! | `fast.packets`, `slow.packets` | packets | of those that entered the chain: settled by the fast path alone; seen by the slow path |
//! | `fast.bytes`, `slow.bytes` | bytes | of those packets, as they arrived |
//! | `fast.share`, `slow.share` | 0 to 1 | of both paths' packets |
//! | `drops.<reason>` | packets | dropped, by reason |
//! | `coherence.pulls` | events | state asked for, re-arms included |
//! | `coherence.pulls_granted` | events | pulls answered with the state |
//! | `coherence.pulls_declined` | events | pulls declined, complex work being pending |
//! | `coherence.cancellations` | events | pulls given up because a packet overtook the answer |
//! | `coherence.rearms` | events | cancelled pulls sent again with a new generation |
//! | `coherence.incomplete_timeouts` | events | pulls given up because no answer came |
//! | `coherence.refused_pulls` | events | pulls given up because the ring was full |
//! | `coherence.waited` | packets | waited on the fast path for the state of their flow |
//! | `coherence.waited_then_punted` | packets | of them, went to the slow path after all |
//! | `coherence.write_backs` | events | states sent back to the slow path, retries not included |
//! | `coherence.write_back_retries` | events | write-backs sent again |
//! | `coherence.ttl_write_backs` | events | of the write-backs, those of idle flows |
//! | `coherence.acknowledgements` | events | acknowledgements that freed a slot |
//! | `coherence.stale_messages_ignored` | messages | of an older generation or another state |
//! | `coherence.collisions` | packets | sent to the slow path because other flows held their bucket |
//! | `coherence.reordered_frames` | frames | came out of order over the link and were dropped |
//! | `coherence.lost_frames` | frames | never came over the link |
//! | `flows.known`, `flows.half_open` | flows | the workers know at the end of the run, and of them half-open; a connection that passes several elements with flow state is one in each |
//! | `flows.tables` | | that they are in: for each worker one for each such element |
//! | `flows.half_open_forgotten` | flows | forgotten half-open or over, for want of room |
//! | `flows.crowded` | flows | turned away because too many others fell on the same place of the index |
//! | `worker_restarts[]` | events | this worker crashed, and began anew with empty tables |
//! | `slots.capacity` | slots | in the fast path's state table |
//! | `slots.initial` | slots | free while the last packets came in |
//! | `slots.incomplete` | slots | then waiting for the answer to a pull |
//! | `slots.active` | slots | then holding a flow's state |
//! | `slots.frozen` | slots | then waiting for an acknowledgement |
//! | `slots_at_end.capacity` | slots | the same when the run was over |
//! | `slots_at_end.initial` | slots | then free |
//! | `slots_at_end.incomplete` | slots | then still waiting for the answer to a pull |
//! | `slots_at_end.active` | slots | then still holding a flow's state |
//! | `slots_at_end.frozen` | slots | then still waiting for an acknowledgement |
//! | `rules.total`, `rules.elements[].counts` | | cached rules, all together and of each element (functions in a row whose decisions are cached), each with the fields below |
//! | `rules.elements[].functions[]` | | the element's functions, in chain order |
//! | `rules.*.table.capacity` | rules | that the fast path can hold |
//! | `rules.*.table.active` | rules | that packets met at the end |
//! | `rules.*.table.hits` | packets | met a rule |
//! | `rules.*.table.misses` | packets | met none and went to the slow path |
//! | `rules.*.table.guarded` | packets | went to the slow path because of their time to live |
//! | `rules.*.table.held` | packets | waited for a rule to become active, or for a fragment of their flow to return |
//! | `rules.*.table.held_then_punted` | packets | of them, went to the slow path after all |
//! | `rules.*.table.activated` | events | a rule became active |
//! | `rules.*.table.demoted` | events | an active rule waited for a packet of its flow to return |
//! | `rules.*.table.idle` | rules | taken out because of their idle time-out |
//! | `rules.*.table.hold_full` | rules | taken out because more packets came than may be held |
//! | `rules.*.table.no_room` | rules | found no room |
//! | `rules.*.table.marks_repeated` | messages | marks sent again |
//! | `rules.*.table.fragments_alone` | packets | fragments that packets of their flow did not wait for, as too many flows had some on the slow path |
//! | `rules.*.slow_path.packets` | packets | came to the slow path |
//! | `rules.*.slow_path.waited` | packets | waited until rules were gone or reported |
//! | `rules.*.slow_path.overflowed` | packets | dropped because too many waited |
//! | `rules.*.slow_path.stuck` | packets | dropped because their function waited for what was settled |
//! | `rules.*.obstacles.<reason>` | packets | made no rule, by reason |
//! | `rules.*.selection.cacheable` | packets | made a rule |
//! | `rules.*.selection.selected` | rules | found hot |
//! | `rules.*.manager.added` | rules | sent to the fast path |
//! | `rules.*.manager.replaced` | rules | taken out for hotter ones |
//! | `rules.*.manager.aged` | rules | taken out because nobody used them |
//! | `rules.*.manager.invalidated` | rules | taken out because an entry that they came from changed |
//! | `rules.*.manager.gone` | rules | the fast path took out itself |
//! | `rules.*.manager.repeated` | messages | requests sent again |
//! | `dash` | | what a DPU counted; only if the service is one |
//! | `dash.flows` | flows | of all ENIs at the end |
//! | `dash.drops.<reason>` | packets | dropped that are of no ENI, by reason |
//! | `dash.enis[].eni` | | the ENI's name |
//! | `dash.enis[].flows` | flows | of the ENI at the end |
//! | `dash.enis[].outbound.received_packets`, `dash.enis[].inbound.received_packets` | packets | came from its machine; came for it |
//! | `dash.enis[].outbound.received_bytes`, `dash.enis[].inbound.received_bytes` | bytes | of their inner frames |
//! | `dash.enis[].outbound.sent_packets`, `dash.enis[].inbound.sent_packets` | packets | of these, left |
//! | `dash.enis[].outbound.sent_bytes`, `dash.enis[].inbound.sent_bytes` | bytes | of their inner frames |
//! | `dash.enis[].flow_hits`, `dash.enis[].flow_misses` | packets | of known flows, and of none |
//! | `dash.enis[].flows_created` | flows | opened |
//! | `dash.enis[].flows_removed` | flows | policies no longer allow them |
//! | `dash.enis[].flows_closed` | flows | their connections ended with a RST or the FINs of both ends; they stay a while for what is under way |
//! | `dash.enis[].flows_aged` | flows | ended by time alone |
//! | `dash.enis[].flows_resimulated` | flows | judged anew after a change of policy |
//! | `dash.enis[].redirects`, `dash.enis[].flows_redirected`, `dash.enis[].redirects_of_none` | packets, flows, packets | redirects of load balancers that came, flows that they moved, and those that were about no flow |
//! | `dash.enis[].drops.<reason>` | packets | of the ENI, dropped, by reason |
//! | `dash.enis[].meters[].class` | | a metering class |
//! | `dash.enis[].meters[].outbound_bytes`, `dash.enis[].meters[].inbound_bytes` | bytes | counted for it |
//! | `parking` | | payloads that waited on the fast path's side; only if the service has `[parking]` |
//! | `parking.parked` | packets | left their payload behind on their way to the slow path |
//! | `parking.whole_small` | packets | crossed whole: too little payload |
//! | `parking.whole_unsuited` | packets | crossed whole: fragments, neither TCP nor UDP, or a time to live that ends |
//! | `parking.whole_no_room` | packets | crossed whole: no room in the queue, or no slot |
//! | `parking.whole_no_buffer` | packets | crossed whole: no buffer for their header |
//! | `parking.refused` | packets | dropped: no room in the queue, or no slot |
//! | `parking.departed` | packets | of the parked, left with their header |
//! | `parking.declined` | packets | of the parked, dropped by a function |
//! | `parking.missing` | packets | of the parked, given up: no header in time |
//! | `parking.header_too_long` | packets | of the parked, dropped: their header did not fit in front of them |
//! | `parking.stale` | headers | came back after their payload was given up, or twice |
//! | `parking.dropped_late` | headers | of these, of packets that a function had dropped: those packets count twice among the drops |
//! | `parking.followers` | packets | whole, waited in the queue because they must not overtake others |
//! | `parking.followers_refused` | packets | whole, should have, and were dropped for want of room |
//! | `parking.fragments_alone` | packets | later fragments that left while nothing was known of their datagrams: they keep no place in their flow |
//! | `parking.recirculations` | passes | of payloads that went round |
//! | `parking.port_passes` | passes | of these, to reach another port |
//! | `parking.copies` | copies | that the controller put into the queue |
//! | `parking.target_beyond_buffer` | packets | came while the queue's limit was below what the workers' latency asks for |
//! | `parking.parked_bytes` | bytes | did not cross the link to the slow path |
//! | `parking.most_queue_bytes` | bytes | most in the queue at any time |
//! | `parking.limit_bytes` | bytes | that the queue may hold |
//! | `split` | | packets whose payloads waited in remote memory; only if the service has `[split]` |
//! | `split.packets` | packets | packets whose payload was written, and whose header went alone |
//! | `split.bytes` | bytes | bytes that did not go to the slow path |
//! | `split.whole_small` | packets | travelled whole: too short |
//! | `split.whole_unsuited` | packets | travelled whole: fragments, neither TCP nor UDP, or a time to live that ends |
//! | `split.whole_class` | packets | travelled whole: of a class that is never split |
//! | `split.whole_chain` | packets | travelled whole: a function of the chain needs payloads |
//! | `split.whole_no_buffer` | packets | travelled whole: no buffer for their header |
//! | `split.whole_no_slot` | packets | travelled whole: no header slot |
//! | `split.whole_no_server` | packets | travelled whole: no server takes payloads of their flow |
//! | `split.whole_down` | packets | travelled whole: their queue pair was down |
//! | `split.whole_window` | packets | travelled whole: too many requests were under way |
//! | `split.whole_no_memory` | packets | travelled whole: no room in remote memory |
//! | `split.whole_too_long` | packets | travelled whole: longer than a packet to the server may be |
//! | `split.merged` | packets | of the split, those that left with their payload |
//! | `split.declined` | packets | of the split, those that a function dropped |
//! | `split.missing` | packets | of the split, those whose header did not come back |
//! | `split.payload_lost` | packets | of the split, those whose payload did not come back |
//! | `split.payload_gone` | packets | of the split, those whose payload had lost its place before it was asked for |
//! | `split.payload_refused` | packets | of the split, those whose payload could not be asked for, because too many were or its server is gone |
//! | `split.payload_late` | packets | of the split, those whose payload had not come when too many packets waited for others |
//! | `split.header_too_long` | packets | of the split, those whose header did not fit in front of their payload |
//! | `split.headers_stale` | headers | headers that came when their slot was another's |
//! | `split.dropped_late` | headers | of these, headers of packets that were dropped |
//! | `split.headers_doubled` | headers | headers that came a second time |
//! | `split.followers` | packets | whole packets that waited because they must not overtake others |
//! | `split.fragments_alone` | packets | later fragments that left while nothing was known of their datagrams: they keep no place in their flow |
//! | `split.most_slots` | slots | most header slots that were in use at any time |
//! | `split.other_frames` | frames | frames at ports of memory servers that were none of theirs |
//! | `split.events_lost` | events | events at servers that nobody was told of |
//! | `split.servers[]` | | each memory server; memory of the process itself is one, `store` |
//! | `split.servers[].name` | | its name |
//! | `split.servers[].is_up` | bool | whether it takes payloads |
//! | `split.servers[].share_per_mille` | ‰ | the share of its flows that it takes, less while its link is busy |
//! | `split.servers[].rate_bps` | bit/s | what its link carried when it was last looked at |
//! | `split.servers[].last_error` | | what went wrong last, in words, or null |
//! | `split.servers[].last_error_age_ms` | ms | how long ago that was, or null |
//! | `split.servers[].counters.<name>` | | everything it counted, by name |
//! | `split.servers[].queue_pairs[]` | | each of its queue pairs; the process itself has none |
//! | `split.servers[].queue_pairs[].number` | | its number at the server |
//! | `split.servers[].queue_pairs[].is_up` | bool | whether it takes payloads |
//! | `split.servers[].queue_pairs[].writes` | payloads | sent by it |
//! | `split.servers[].queue_pairs[].reads` | payloads | asked for by it |
//! | `split.servers[].queue_pairs[].payloads` | payloads | came back by it |
//! | `split.servers[].queue_pairs[].lives` | events | it began to take payloads |
//! | `split.servers[].queue_pairs[].errors` | events | it ended by an error |
//! | `split.servers[].queue_pairs[].last_error` | | why it last did, or null |
//! | `latency.fast`, `latency.slow` | | arrival to leaving, by path, each with the fields below |
//! | `latency.*.count` | packets | measured |
//! | `latency.*.min_ns` | ns | shortest |
//! | `latency.*.p50_ns` | ns | median |
//! | `latency.*.p90_ns` | ns | 90th percentile |
//! | `latency.*.p99_ns` | ns | 99th percentile |
//! | `latency.*.p999_ns` | ns | 99.9th percentile |
//! | `latency.*.max_ns` | ns | longest |
//! | `latency.*.mean_ns` | ns | mean |
//! | `latency.*.histogram[].upper_bound_ns` | ns | longest latency in this bar |
//! | `latency.*.histogram[].count` | packets | in this bar |
//! | `throughput.packets_per_second` | packets/s | left, by the wall clock |
//! | `throughput.bits_per_second` | bit/s | left, by the wall clock |
//! | `functions[].name` | | name of the network function, in chain order |
//! | `functions[].counters.<name>` | | its counters |
//! | `largest_flows[].function` | | name of a function that counts flows (`telemetry`); absent without one |
//! | `largest_flows[].flows[].protocol` | | IP protocol number of one of the largest flows, the largest first |
//! | `largest_flows[].flows[].ends[]` | | its ends, the lower first |
//! | `largest_flows[].flows[].packets` | packets | it had, both ways |
//! | `largest_flows[].flows[].bytes` | bytes | of their IP packets, never too few |
//! | `largest_flows[].flows[].excess_bytes` | bytes | of these, that may be other flows' |
//! | `rings.capacity_frames` | frames | one ring between the paths holds |
//! | `pool.frames` | frames | in all pools |
//! | `pool.low_water_frames` | frames | fewest free at any time |
//! | `pool.exhausted_events` | events | no frame was free |
//! | `ports[].name`, `ports[].device`, `ports[].driver` | | of each port that is a network interface: its name in the service file, its interface, how packets were exchanged with it |
//! | `ports[].mode` | | with AF_XDP, who copied packets between driver and node: `zero_copy` if nobody did, `copy` if the kernel did; of several queues the worst |
//! | `ports[].is_up` | | whether packets came and went at the end |
//! | `ports[].received_packets`, `ports[].received_bytes` | frames, bytes | that came; a frame that is still to be cut counts once |
//! | `ports[].receive_missed` | frames | that came while the kernel had no room for them |
//! | `ports[].receive_unread` | frames | that the kernel had for the node and that nobody read: the run ended, and no service manager keeps the socket, or the interface was gone |
//! | `ports[].receive_no_buffer` | frames | for which there was no buffer |
//! | `ports[].receive_too_long` | frames | longer than the longest buffer |
//! | `ports[].receive_malformed` | frames | of which the kernel told what cannot be |
//! | `ports[].transmitted_packets`, `ports[].transmitted_bytes` | frames, bytes | that left |
//! | `ports[].transmit_refused` | frames | that the kernel did not take: its queue was full, or the interface down |
//! | `ports[].transmit_too_long` | frames | longer than the MTU |
//! | `ports[].copied_received` | frames | that came by AF_XDP and were copied once more, for few buffers were left where they lay |
//! | `ports[].copied_transmitted` | frames | that were copied to where AF_XDP sends from: they were made in the node, or came by another kind of port |
//! | `ports[].outages` | | how often the interface went down or disappeared |
//! | `neighbors.known` | | neighbours that are known, or asked for; only if a port has an address |
//! | `neighbors.questions` | | that the node asked about neighbours |
//! | `neighbors.answers` | | that it gave to questions of others |
//! | `neighbors.unanswered` | | neighbours that did not answer, or not any more |
//! | `neighbors.unanswered_drops` | packets | that waited for a neighbour which did not answer |
//! | `neighbors.backlog_drops` | packets | pushed out of a neighbour's queue by later ones |
//! | `neighbors.unresolved_drops` | packets | for neighbours that could not be asked for: too many were |
//! | `neighbors.no_address_drops` | packets | to where the port has no address to ask from |
//! | `neighbors.conflicts` | | messages of others that claim one of the node's addresses |
//! | `neighbors.evictions` | | neighbours that had to make room for others |
//! | `neighbors.waited` | packets | that had to wait for a neighbour's answer, whatever became of them; how long is in no latency |
//! | `neighbors.announcements` | | times that an address that the node answers for was announced |
//! | `kernel.routes` | routes | that the router has of the kernel; only with `routes = "kernel"` |
//! | `kernel.elsewhere` | routes | of those, by interfaces that are no ports: their packets are dropped |
//! | `kernel.next_hops`, `kernel.groups` | | next hops that routes lead to, and groups of them that share flows |
//! | `kernel.neighbors` | | neighbours at ports that the kernel knows |
//! | `kernel.changes`, `kernel.changed_routes` | | changes of the chain that were made, and routes that were others in them |
//! | `kernel.refused_changes` | | changes that could not be made then, and were tried again |
//! | `kernel.longest_pause_ns`, `kernel.last_change_ns` | ns | the longest that packets waited for a change; when the last was made, since the start (0: none was) |
//! | `kernel.resyncs`, `kernel.overruns` | | times that all was asked for again, and that the kernel's messages were lost |
//! | `kernel.malformed`, `kernel.errors` | | messages that made no sense, and times that the kernel could not be asked |
//! | `kernel.ignored_routes` | routes | that there is no room for, as far as is known |
//! | `kernel.host_packets` | frames | left to the kernel: for this host, for groups, and what is no IP packet; with AF_XDP they never come to the node |
//! | `port_losses.receive_missed`, `port_losses.receive_unread`, `port_losses.receive_no_buffer`, `port_losses.receive_too_long`, `port_losses.receive_malformed`, `port_losses.transmit_refused`, `port_losses.transmit_too_long` | frames | the same of all ports together, answers that a socket did not take, and packets for whose fragments there were no buffers; only if there is any loss |
//! | `port_losses.without_neighbor` | packets | whose neighbour's MAC address was not to be had |
//! | `port_losses.between_shards` | packets | that another shard did not take in time |
//! | `shards[].received_packets` | frames | that came by each shard's own queues; only of network interfaces with several shards |
//! | `shards[].handed_over` | frames | of these, another shard's, which went to it |
//! | `shards[].left_elsewhere` | frames | that left by a queue of another shard |
//! | `shards[].crossed` | packets | between hosts inside of two shards, by an external address, that went on in another, the receiver's |
//! | `shards[].ring_full` | frames | for another shard that was behind: they were dropped |
//! | `shards[].no_buffer` | frames | of another shard's queues for which there was no buffer |
//! | `shards[].left_behind` | frames | that another shard had handed over when the run ended |
//! | `shards[].server_frames_handed_over` | frames | of memory servers, for another shard, which went to it |
//! | `shards[].server_frames_lost` | frames | of memory servers, that another shard did not take in time; payloads are asked for again |
//! | `control.clients` | connections | to the control socket; only if there was one |
//! | `control.answered` | requests | granted |
//! | `control.refused` | requests | refused with a reason |
//! | `control.not_permitted` | connections | of users who may not ask |
//! | `control.too_many` | connections | refused because too many others were served |
//! | `control.shed` | connections | sent away to make room for others, before they had said what they want |
//! | `control.unreadable` | requests | that were none, or too long |
//! | `control.too_slow` | requests | not made in time, or answers not taken in time |
//! | `control.panics` | requests | whose answering failed by a defect |
//! | `ipfix.flows` | records | of flows, each time that one was told; only if the service names a collector |
//! | `ipfix.bindings` | records | of bindings that began or ended |
//! | `ipfix.bindings_lost` | events | of bindings, not told because too many waited |
//! | `ipfix.messages` | messages | sent |
//! | `ipfix.messages_lost` | messages | that the system did not take |
//! | `series[].time_ns` | ns | since the start; at most 600 samples, ascending |
//! | `series[].packets_in` | packets | arrived since the start |
//! | `series[].packets_fast` | packets | settled by the fast path since the start |
//! | `series[].packets_slow` | packets | sent to the slow path since the start |
//! | `series[].packets_out_fast` | packets | left since the start without having been on the slow path |
//! | `series[].packets_out_slow` | packets | left since the start by way of the slow path |
//! | `series[].drops` | packets | dropped since the start |
//! | `series[].slots_incomplete` | slots | waiting for an answer at that moment |
//! | `series[].slots_active` | slots | holding a state at that moment |
//! | `series[].slots_frozen` | slots | waiting for an acknowledgement at that moment |
//! | `series[].rules_active` | rules | that packets met at that moment |

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use super::{Report, ReportError, SCHEMA};

/// Largest file taken for a report; real ones have some 100 kB.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// The report as indented JSON, fields in the order of the table above, maps
/// by key: the same report is the same text.
///
/// # Errors
/// None that a [`Report`] is known to cause; whatever the serialiser says.
pub fn to_text(report: &Report) -> Result<String, ReportError> {
    let mut text = serde_json::to_string_pretty(report)?;
    text.push('\n');
    Ok(text)
}

/// Reads what [`to_text`] wrote.
///
/// # Errors
/// [`ReportError::Json`] on malformed text, [`ReportError::Schema`] on a report
/// of another version.
pub fn from_text(text: &str) -> Result<Report, ReportError> {
    check_schema(text)?;
    Ok(serde_json::from_str(text)?)
}

/// Writes a report to a file.
///
/// # Errors
/// [`ReportError::File`] if the file cannot be written.
pub fn write(report: &Report, path: &Path) -> Result<(), ReportError> {
    fs::write(path, to_text(report)?).map_err(ReportError::file(path))
}

/// Reads a report from a file.
///
/// # Errors
/// As [`from_text`], and [`ReportError::File`] or [`ReportError::TooLarge`].
pub fn read(path: &Path) -> Result<Report, ReportError> {
    let file = File::open(path).map_err(ReportError::file(path))?;
    let mut text = String::new();
    file.take(MAX_FILE_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(ReportError::file(path))?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(ReportError::TooLarge {
            limit_bytes: MAX_FILE_BYTES,
        });
    }
    from_text(&text)
}

/// Looks at the version before anything else, so that a newer report is
/// refused for its version and not for some field.
fn check_schema(text: &str) -> Result<(), ReportError> {
    #[derive(serde::Deserialize)]
    struct Header {
        schema: String,
    }
    let Header { schema: found } = serde_json::from_str(text)?;
    if found != SCHEMA {
        return Err(ReportError::Schema { found });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use serde_json::Value;

    use super::super::testing::{any_report, edge_report};
    use super::super::{
        ControlCounters, Dash, EniFigures, ExportCounters, KernelFigures, LargeFlow, LargestFlows,
        MemoryServerFigures, MeterFigures, NeighborFigures, Parking, PortFigures, PortLosses,
        QueuePairFigures, ShardFigures, SplitFigures,
    };
    use super::*;

    #[test]
    fn another_version_is_refused_by_name() {
        let error = from_text(r#"{"schema": "twinpath-report/9", "news": 1}"#).unwrap_err();
        assert!(matches!(error, ReportError::Schema { found } if found == "twinpath-report/9"));
        assert!(matches!(from_text("{}"), Err(ReportError::Json(_))));
    }

    #[test]
    fn unknown_fields_are_ignored() {
        let text = to_text(&edge_report()).unwrap();
        let newer = text.replacen('{', "{\"extra\": [1],", 1);
        assert_eq!(from_text(&newer).unwrap(), edge_report());
    }

    /// Reports of before there were rules.
    #[test]
    fn a_report_without_rules_is_read() {
        let mut older: Value = serde_json::from_str(&to_text(&edge_report()).unwrap()).unwrap();
        older.as_object_mut().unwrap().remove("rules");
        let report = from_text(&older.to_string()).unwrap();
        assert!(report.rules.is_empty() && report.shows_flow_state());
    }

    #[test]
    fn what_is_not_finite_is_still_readable() {
        let mut report = edge_report();
        report.fast.share = f64::NAN;
        report.throughput.bits_per_second = f64::INFINITY;
        let back = from_text(&to_text(&report).unwrap()).unwrap();
        assert_eq!(
            (back.fast.share, back.throughput.bits_per_second),
            (0.0, 0.0)
        );
    }

    #[test]
    fn the_table_documents_every_field_and_no_other() {
        let report = Report {
            dash: Some(Dash {
                enis: vec![EniFigures {
                    meters: vec![MeterFigures::default()],
                    ..EniFigures::default()
                }],
                ..Dash::default()
            }),
            parking: Some(Parking::default()),
            split: Some(SplitFigures {
                servers: vec![MemoryServerFigures {
                    queue_pairs: vec![QueuePairFigures::default()],
                    ..MemoryServerFigures::default()
                }],
                ..SplitFigures::default()
            }),
            control: Some(ControlCounters::default()),
            ipfix: Some(ExportCounters::default()),
            ports: vec![PortFigures::default()],
            neighbors: Some(NeighborFigures::default()),
            kernel: Some(KernelFigures::default()),
            shards: vec![ShardFigures::default()],
            largest_flows: vec![LargestFlows {
                flows: vec![LargeFlow::default()],
                ..LargestFlows::default()
            }],
            port_losses: PortLosses {
                receive_missed: 1,
                receive_unread: 1,
                receive_no_buffer: 1,
                receive_too_long: 1,
                receive_malformed: 1,
                transmit_refused: 1,
                transmit_too_long: 1,
                without_neighbor: 1,
                between_shards: 1,
            },
            ..edge_report()
        };
        let written: Value = serde_json::from_str(&to_text(&report).unwrap()).unwrap();
        let mut fields = BTreeSet::new();
        collect_fields("", &written, &mut fields);
        assert_eq!(documented_fields(), fields);
    }

    /// The dotted names of all leaves, with the parts that vary made general.
    fn collect_fields(prefix: &str, value: &Value, fields: &mut BTreeSet<String>) {
        match (prefix, value) {
            (
                "drops"
                | "dash.drops"
                | "dash.enis[].drops"
                | "functions[].counters"
                | "split.servers[].counters",
                _,
            ) => {}
            (name, _) if name.ends_with(".obstacles") => {}
            (_, Value::Object(members)) => {
                for (name, member) in members {
                    let dot = if prefix.is_empty() { "" } else { "." };
                    collect_fields(&format!("{prefix}{dot}{name}"), member, fields);
                }
            }
            (_, Value::Array(elements)) => {
                assert!(!elements.is_empty(), "{prefix} is empty in the example");
                let name = format!("{prefix}[]");
                elements
                    .iter()
                    .for_each(|element| collect_fields(&name, element, fields));
            }
            _ => {
                let general = prefix
                    .replace("latency.fast.", "latency.*.")
                    .replace("latency.slow.", "latency.*.")
                    .replace("rules.total.", "rules.*.")
                    .replace("rules.elements[].counts.", "rules.*.");
                fields.insert(general);
            }
        }
    }

    /// Rows that stand for several fields, which are documented once.
    const IN_GENERAL: [&str; 9] = [
        "dash",
        "parking",
        "split",
        "split.servers[]",
        "split.servers[].queue_pairs[]",
        "latency.fast",
        "latency.slow",
        "rules.total",
        "rules.elements[].counts",
    ];

    /// The names in the first column of the table above.
    fn documented_fields() -> BTreeSet<String> {
        let rows = include_str!("json.rs")
            .lines()
            .filter_map(|line| line.strip_prefix("//! | "));
        let first_cells = rows.filter_map(|row| row.split(" | ").next());
        let names = first_cells.flat_map(|cell| cell.split(", "));
        names
            .filter_map(|name| name.strip_prefix('`')?.strip_suffix('`'))
            .filter(|name| !name.contains('<') && !IN_GENERAL.contains(name))
            .map(str::to_owned)
            .collect()
    }

    proptest! {
        #[test]
        fn round_trip(report in any_report()) {
            let text = to_text(&report).unwrap();
            let back = from_text(&text).unwrap();
            prop_assert_eq!(&back, &report);
            prop_assert_eq!(to_text(&back).unwrap(), text);
        }
    }
}
