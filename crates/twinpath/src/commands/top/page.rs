//! The page of `twinpath top`, as text.

use std::fmt::Write;
use std::time::Instant;
use twinpath_control::report::{
    EniFigures, MemoryServerFigures, PortFigures, Report, SplitFigures, units,
};

/// Figures and when they were told.
pub struct Moment {
    pub at: Instant,
    pub report: Report,
}

/// Drops and counters of a function that a page has room for.
const MOST_LINES: usize = 12;

/// What was between two moments, and how it stands at the second.
pub fn page(before: &Moment, now: &Moment) -> String {
    let page = Page {
        before: &before.report,
        now: &now.report,
        seconds: now.at.saturating_duration_since(before.at).as_secs_f64(),
    };
    let mut text = String::new();
    // Memory takes all.
    let _ = page.write(&mut text);
    text
}

struct Page<'a> {
    before: &'a Report,
    now: &'a Report,
    seconds: f64,
}

impl Page<'_> {
    fn write(&self, text: &mut String) -> std::fmt::Result {
        self.totals(text)?;
        self.paths(text)?;
        self.ports(text)?;
        self.tables(text)?;
        self.enis(text)?;
        self.split(text)?;
        self.functions(text)?;
        self.drops(text)
    }

    /// How many in a second.
    fn rate(&self, of: impl Fn(&Report) -> u64) -> f64 {
        self.per_second(of(self.now).saturating_sub(of(self.before)))
    }

    /// So many between the moments, as a rate.
    fn per_second(&self, count: u64) -> f64 {
        match self.seconds > 0.0 {
            true => count as f64 / self.seconds,
            false => 0.0,
        }
    }

    /// Packets in a second, as the summary of a run tells them.
    fn packets(&self, of: impl Fn(&Report) -> u64) -> String {
        units::packet_rate(self.rate(of))
    }

    /// Of bytes the bits in a second, as the summary of a run tells them.
    fn bits(&self, of: impl Fn(&Report) -> u64) -> String {
        units::bit_rate(self.rate(of) * 8.0)
    }

    fn totals(&self, text: &mut String) -> std::fmt::Result {
        let run = &self.now.run;
        let uptime = units::duration(run.duration_wall_ns);
        writeln!(text, "{}  up {uptime}", run.service)?;
        let packets_in = self.packets(|report| report.totals.packets_in);
        let packets_out = self.packets(|report| report.totals.packets_out);
        let bits_in = self.bits(|report| report.totals.bytes_in);
        let bits_out = self.bits(|report| report.totals.bytes_out);
        writeln!(text, "  in   {packets_in:>10} {bits_in:>10}")?;
        writeln!(text, "  out  {packets_out:>10} {bits_out:>10}")
    }

    fn paths(&self, text: &mut String) -> std::fmt::Result {
        let paths = [
            ("fast", self.now.fast.share, &self.now.latency.fast),
            ("slow", self.now.slow.share, &self.now.latency.slow),
        ];
        for (name, share, latency) in paths {
            let share = units::percent(share);
            let [p50, p99] = [latency.p50_ns, latency.p99_ns].map(|ns| match latency.count {
                0 => "-".to_owned(),
                _ => units::duration(ns),
            });
            writeln!(
                text,
                "  {name:<6} {share:>8}   latency p50 {p50}, p99 {p99}"
            )?;
        }
        Ok(())
    }

    fn ports(&self, text: &mut String) -> std::fmt::Result {
        for (place, port) in self.now.ports.iter().enumerate() {
            let count = |of: fn(&PortFigures) -> u64| {
                self.packets(move |report| report.ports.get(place).map_or(0, of))
            };
            let state = if port.is_up { "up" } else { "DOWN" };
            let received = count(|port| port.received_packets);
            let transmitted = count(|port| port.transmitted_packets);
            let lost = units::count(port.lost());
            writeln!(
                text,
                "  port {:<12} {state:<4} in {received:>10}  out {transmitted:>10}  lost {lost}",
                port.name
            )?;
        }
        Ok(())
    }

    fn tables(&self, text: &mut String) -> std::fmt::Result {
        let (slots, flows) = (&self.now.slots, &self.now.flows);
        if slots.capacity > 0 {
            let [active, capacity] = [slots.active, slots.capacity].map(units::count);
            writeln!(text, "  slots  {active} active of {capacity}")?;
            let [known, half_open] = [flows.known, flows.half_open].map(units::count);
            let elements = flows.tables / (self.now.worker_restarts.len() as u64).max(1);
            let (place, why) = match elements {
                0 | 1 => (String::new(), ""),
                _ => (
                    format!(" in {elements} elements"),
                    "; a connection counts in each",
                ),
            };
            writeln!(
                text,
                "  flows  {known}{place}, {half_open} of them half-open{why}"
            )?;
        }
        let table = &self.now.rules.total.table;
        if !self.now.rules.is_empty() {
            let [active, capacity] = [table.active, table.capacity].map(units::count);
            let hits = units::percent(table.hit_ratio());
            writeln!(text, "  rules  {active} active of {capacity}, hits {hits}")?;
        }
        if let Some(kernel) = &self.now.kernel {
            let routes = units::counted(kernel.routes, "route");
            let ignored = units::count(kernel.ignored_routes);
            let lost = match kernel.ignored_routes {
                0 => String::new(),
                _ => format!(", NO ROOM for {ignored}"),
            };
            writeln!(text, "  kernel {routes}{lost}")?;
        }
        let restarts: u64 = self.now.worker_restarts.iter().sum();
        if restarts > 0 {
            let times = units::counted(restarts, "time");
            writeln!(text, "  workers crashed {times}")?;
        }
        Ok(())
    }

    /// A DPU's, those with most packets since the moment before first.
    fn enis(&self, text: &mut String) -> std::fmt::Result {
        let Some(dash) = &self.now.dash else {
            return Ok(());
        };
        let packets =
            |eni: &EniFigures| eni.outbound.received_packets + eni.inbound.received_packets;
        let before = |eni: &EniFigures| {
            let known = self.before.dash.iter().flat_map(|dash| &dash.enis);
            let mut known = known.filter(|other| other.eni == eni.eni);
            known.next().cloned().unwrap_or_default()
        };
        let mut enis: Vec<_> = dash.enis.iter().map(|eni| (eni, before(eni))).collect();
        enis.sort_by_key(|(eni, before)| {
            std::cmp::Reverse(packets(eni).saturating_sub(packets(before)))
        });
        let (count, flows) = (enis.len() as u64, dash.flows);
        let (enis_told, flows) = (units::counted(count, "ENI"), units::counted(flows, "flow"));
        writeln!(text, "  DPU    {enis_told}, {flows}")?;
        for (eni, before) in enis.into_iter().take(MOST_LINES) {
            let rate = |of: fn(&EniFigures) -> u64| {
                let more = of(eni).saturating_sub(of(&before));
                units::packet_rate(self.per_second(more))
            };
            let outbound = rate(|eni| eni.outbound.received_packets);
            let inbound = rate(|eni| eni.inbound.received_packets);
            let dropped = rate(EniFigures::dropped);
            let (name, flows) = (&eni.eni, units::count(eni.flows));
            writeln!(
                text,
                "  ENI {name:<14} outbound {outbound:>10}  inbound {inbound:>10}  flows {flows:>9}  dropped {dropped:>10}"
            )?;
        }
        Ok(())
    }

    /// Packets whose payloads wait elsewhere, and how it is there.
    fn split(&self, text: &mut String) -> std::fmt::Result {
        let Some(split) = &self.now.split else {
            return Ok(());
        };
        let of_split = |of: fn(&SplitFigures) -> u64| {
            move |report: &Report| report.split.as_ref().map_or(0, of)
        };
        let packets = self.packets(of_split(|split| split.counts.packets));
        let bits = self.bits(of_split(|split| split.counts.bytes));
        let whole = self.packets(of_split(|split| split.counts.whole()));
        let counts = &split.counts;
        let away = units::count(counts.packets.saturating_sub(counts.ended()));
        let lost = units::count(counts.lost());
        writeln!(
            text,
            "  split  {packets}, {bits} kept from the slow path, whole {whole}, away {away}, lost {lost}"
        )?;
        let mut servers = split.servers.iter();
        servers.try_for_each(|server| self.server(server, text))
    }

    fn server(&self, server: &MemoryServerFigures, text: &mut String) -> std::fmt::Result {
        let counted = |names: &'static [&'static str]| {
            move |report: &Report| {
                let servers = report.split.iter().flat_map(|split| &split.servers);
                let own = servers.filter(|one| one.name == server.name);
                own.flat_map(|one| names.iter().map(move |name| one.counter(name)))
                    .sum::<u64>()
            }
        };
        let state = if server.is_up { "up" } else { "DOWN" };
        let written = self.packets(counted(&["writes"]));
        let read = self.packets(counted(&["reads"]));
        let link = units::bit_rate(server.rate_bps as f64);
        let [outstanding, lost] = [server.outstanding(), server.lost()].map(units::count);
        let share = units::percent(units::fraction(server.share_per_mille, 1000));
        writeln!(
            text,
            "  memory {:<12} {state:<4} written {written}  read {read}  link {link}  takes {share}  outstanding {outstanding}  lost {lost}",
            server.name
        )?;
        match server.last_error_told() {
            Some(error) => writeln!(text, "         last error: {error}"),
            None => Ok(()),
        }
    }

    fn functions(&self, text: &mut String) -> std::fmt::Result {
        for function in &self.now.functions {
            let counted = function.counters.iter().filter(|(_, count)| **count > 0);
            let shown = counted.take(MOST_LINES / 2);
            let shown = shown.map(|(name, count)| format!("{name} {}", units::count(*count)));
            let shown: Vec<_> = shown.collect();
            writeln!(text, "  {:<14} {}", function.name, shown.join(", "))?;
        }
        Ok(())
    }

    /// The most frequent of the moment first.
    fn drops(&self, text: &mut String) -> std::fmt::Result {
        let before = |reason: &str| self.before.drops.get(reason).copied().unwrap_or(0);
        let drops = self.now.drops.iter();
        let mut drops: Vec<_> = drops
            .map(|(reason, count)| (count.saturating_sub(before(reason)), *count, reason))
            .collect();
        drops.sort_by_key(|(new, all, _)| std::cmp::Reverse((*new, *all)));
        for (_, count, reason) in drops.into_iter().take(MOST_LINES) {
            let rate = self.packets(|report| report.drops.get(reason).copied().unwrap_or(0));
            let count = units::count(count);
            writeln!(text, "  drop   {rate:>10} {count:>16}  {reason}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use twinpath_control::report::{Dash, KernelFigures, QueuePairFigures, SplitCounts};

    fn moment(at: Instant, packets: u64) -> Moment {
        let mut report = Report::default();
        report.run.service = "edge".into();
        report.run.duration_wall_ns = 61_000_000_000;
        (report.totals.packets_in, report.totals.bytes_in) = (packets, packets * 100);
        report.drops.insert("denied".into(), packets / 10);
        report.ports.push(PortFigures {
            name: "outside".into(),
            received_packets: packets,
            ..PortFigures::default()
        });
        Moment { at, report }
    }

    #[test]
    fn rates_are_those_between_two_moments() {
        let start = Instant::now();
        let (before, now) = (
            moment(start, 1000),
            moment(start + Duration::from_secs(2), 5000),
        );
        let text = page(&before, &now);
        for part in [
            "edge  up 61.0 s",
            "  in    2.00 kpps  1.60 Mbps\n",
            "port outside      DOWN in  2.00 kpps  out      0 pps",
            "  drop      200 pps              500  denied",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    /// Shares, latencies and times have the units of the summary with which a run ends.
    #[test]
    fn units_are_those_of_the_summary() {
        let start = Instant::now();
        let mut now = moment(start + Duration::from_secs(1), 3_000_000);
        let report = &mut now.report;
        (report.fast.share, report.slow.share) = (0.9999, 0.0001);
        let path = &mut report.latency.fast;
        (path.count, path.p50_ns, path.p99_ns) = (1, 41, 12_400);
        (
            report.throughput.packets_per_second,
            report.throughput.bits_per_second,
        ) = (3e6, 2.4e9);
        let text = page(&moment(start, 0), &now);
        let summary = twinpath_control::report::summary(&now.report);
        for unit in [
            "> 99.9 %",
            "< 0.1 %",
            "41 ns",
            "12.4 µs",
            "61.0 s",
            "3.00 Mpps",
            "2.40 Gbps",
        ] {
            assert!(
                text.contains(unit) && summary.contains(unit),
                "{unit}\n{text}\n{summary}"
            );
        }
        assert!(
            text.contains("  fast   > 99.9 %   latency p50 41 ns, p99 12.4 µs\n"),
            "{text}"
        );
    }

    #[test]
    fn routes_without_room_are_shown() {
        let start = Instant::now();
        let mut now = moment(start, 1);
        for (ignored_routes, line) in [
            (0, "  kernel 1,000 routes\n"),
            (20, "  kernel 1,000 routes, NO ROOM for 20\n"),
        ] {
            now.report.kernel = Some(KernelFigures {
                routes: 1000,
                ignored_routes,
                ..KernelFigures::default()
            });
            let text = page(&moment(start, 0), &now);
            assert!(text.contains(line), "{text}");
        }
    }

    /// Its ENIs are told, with those first that have most to do at the moment.
    #[test]
    fn a_dpu_has_a_line_for_each_eni() {
        let dpu = |at, packets: [u64; 2]| {
            let eni = |(name, packets): (&str, u64)| {
                let mut eni = EniFigures {
                    eni: name.into(),
                    flows: 3,
                    ..EniFigures::default()
                };
                eni.outbound.received_packets = packets;
                eni.drops.insert("acl_outbound".into(), packets / 4);
                eni
            };
            let enis = ["blue", "red"].into_iter().zip(packets).map(eni);
            let mut moment = moment(at, 0);
            moment.report.dash = Some(Dash {
                flows: 6,
                enis: enis.collect(),
                ..Dash::default()
            });
            moment
        };
        let start = Instant::now();
        let now = dpu(start + Duration::from_secs(2), [1100, 2000]);
        let text = page(&dpu(start, [1000, 0]), &now);
        assert!(text.contains("  DPU    2 ENIs, 6 flows\n"), "{text}");
        let [blue, red] = ["blue", "red"].map(|eni| text.find(eni).expect("a line"));
        assert!(red < blue, "{text}");
        assert!(text.contains("outbound  1.00 kpps"), "{text}");
        assert!(text.contains("dropped    250 pps"), "{text}");
    }

    fn with_server(at: Instant, writes: u64) -> Moment {
        let mut moment = moment(at, 0);
        let counters = [
            ("writes", writes),
            ("reads", writes - 1),
            ("payloads", writes - 10),
            ("lost_timeout", 3),
            ("received_bytes", writes * 600),
            ("transmitted_bytes", writes * 400),
        ];
        let counters = counters.map(|(name, count)| (name.to_owned(), count));
        let counts = SplitCounts {
            packets: writes,
            merged: writes - 12,
            missing: 4,
            bytes: writes * 100,
            whole_small: writes / 2,
            ..SplitCounts::default()
        };
        let server = MemoryServerFigures {
            name: "m-1".into(),
            is_up: true,
            share_per_mille: 437,
            rate_bps: 16_000_000,
            last_error: Some("queue pair 3: gone".into()),
            last_error_age_ms: Some(61_500),
            counters: counters.into(),
            queue_pairs: vec![QueuePairFigures::default()],
        };
        moment.report.split = Some(SplitFigures {
            counts,
            servers: vec![server],
        });
        moment
    }

    #[test]
    fn memory_servers_are_shown() {
        let start = Instant::now();
        let later = start + Duration::from_secs(2);
        let text = page(&with_server(start, 1000), &with_server(later, 5000));
        for part in [
            "  split  2.00 kpps, 1.60 Mbps kept from the slow path, whole 1.00 kpps, away 8, lost 4\n",
            "  memory m-1          up   written 2.00 kpps  read 2.00 kpps  link 16.0 Mbps  takes 43.7 %  outstanding 6  lost 3\n",
            "         last error: queue pair 3: gone (61 s ago)\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    /// A chain of several elements with flow state knows a connection several times.
    #[test]
    fn flows_are_told_with_the_elements_that_know_them() {
        let start = Instant::now();
        let mut now = moment(start, 1);
        now.report.slots.capacity = 1024;
        now.report.worker_restarts = vec![0, 0];
        for (tables, line) in [
            (2, "  flows  1,200, 7 of them half-open\n"),
            (
                6,
                "  flows  1,200 in 3 elements, 7 of them half-open; a connection counts in each\n",
            ),
        ] {
            now.report.flows.tables = tables;
            (now.report.flows.known, now.report.flows.half_open) = (1200, 7);
            let text = page(&moment(start, 0), &now);
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn no_time_between_is_no_rate() {
        let start = Instant::now();
        let text = page(&moment(start, 7), &moment(start, 9));
        assert!(text.contains("  in        0 pps      0 bps\n"), "{text}");
    }
}
