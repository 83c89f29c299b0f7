//! `twinpath run`: a service over packets, to a report.

mod dpu;
mod files;
mod health;
mod host;
mod manager;
mod privileges;
mod steps;

use crate::checks::check;
use crate::commands::apply;
use crate::error::{CommandError, RunRefusal};
use crate::flags::{Execution, Pace, Paths};
use crate::group::Group;
use crate::log::{LogFormat, LogLevel};
use crate::paths::capture;
use crate::stop::{Stop, on_hangup};
use crate::traffic::expected_packets;
use crate::{Outcome, log, output};
use health::HealthLog;
use manager::Manager;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use twinpath_control::live::{Expected, Live};
use twinpath_control::report::{HTML_FILE, JSON_FILE, Report, summary};
use twinpath_control::service::{self, Service};
use twinpath_io::{CaptureError, is_piped, is_standard};
use twinpath_nf::dash;
use twinpath_nf::duration::Human;
use twinpath_nf::files::Copied;
use twinpath_node::health::OnHealth;
use twinpath_node::operator::{Reload, Reloaded};
use twinpath_node::{Finished, OpenPorts, Ports, run_opened, wiring};

/// Runs a service between network interfaces, or over a capture, generated traffic or live datagrams
///
/// Without --in and --listen packets come from the network interfaces in [ports] and leave by them;
/// for a file without [ports] the traffic that it describes is generated. The report then goes to
/// twinpath-report, in place of an earlier one, unless --report or --no-report says otherwise. Ctrl-C ends a
/// run early: what was under way is finished, and the report tells of what ran; a second Ctrl-C
/// ends it at once.
#[derive(clap::Args)]
#[command(after_help = output::examples!(
    "twinpath run examples/edge.toml",
    "twinpath run service.toml --in a.pcap.gz --out b.pcap --report report",
    "twinpath run service.toml --in a.pcap --paths slow --execution virtual    # the oracle",
    "twinpath run examples/dpu.toml --dash dpu0/*.json --in a.pcap --out b.pcap",
    "twinpath run examples/dpu.toml --steps steps.json --counters counters.json",
    "tcpdump -w - | twinpath run service.toml --in - --out - | tshark -r -",
    "twinpath run examples/kv.toml --listen 127.0.0.1:19286 --for 60s          # see twinpath kv",
))]
pub struct Arguments {
    /// The service file
    service: PathBuf,
    /// Replay this capture: pcap or pcapng, gzip too; - takes it from standard input as it comes, and so
    /// it is taken from a named pipe. The interfaces of a pcapng are the service's ports, by name, else in
    /// order, which is told; with {port} in the name, which stands for the name of each port, there is a
    /// capture for each: 'in-{port}.pcap' is in-lan.pcap and in-wan.pcap. Packets that a pcapng marks as
    /// outbound left, and are skipped
    #[arg(long = "in", value_name = "CAPTURE", allow_hyphen_values = true, value_parser = capture)]
    input: Option<PathBuf>,
    /// Write what leaves to this capture: pcap, or pcapng if it is named so, compressed if it is
    /// named .gz; with {port} in the name, which stands for the name of each port, a capture for each. -
    /// writes to standard output as packets leave, -.pcapng as pcapng; the summary then goes to
    /// standard error
    #[arg(long = "out", value_name = "CAPTURE", conflicts_with = "listen", allow_hyphen_values = true, value_parser = capture)]
    output: Option<PathBuf>,
    /// Write report.json and report.html to this folder
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Write no report
    #[arg(long, conflicts_with = "report")]
    no_report: bool,
    /// Which paths packets may take
    #[arg(long, value_enum)]
    paths: Option<Paths>,
    /// How the paths are run
    #[arg(long, value_enum)]
    execution: Option<Execution>,
    /// A DPU's configuration, in place of what the service file's [dash] names: files in SONiC's JSON, of a
    /// folder all that end with .json
    #[arg(long, value_name = "CONFIG.json", num_args = 1..)]
    dash: Vec<PathBuf>,
    /// Run in steps: a JSON file with a list such as [{"config": "a.json", "in": "a.pcap", "out": "b.pcap"}],
    /// whose paths start from its folder. A step's configuration (a file or a list of files, or none) is
    /// applied to the DPU that runs, which keeps its flows; then its packets come. A path with {port} in it
    /// stands for a capture for each port, whose name takes its place. A signal ends the run with the step that is being run
    #[arg(long, value_name = "STEPS.json", conflicts_with_all = ["input", "output", "listen", "control", "report", "time"])]
    steps: Option<PathBuf>,
    /// With --steps: write what each ENI has counted up to each step, under SAI's names, and bytes by
    /// metering class
    #[arg(long, value_name = "FILE", requires = "steps", conflicts_with_all = ["input", "output", "listen", "control", "report", "time"])]
    counters: Option<PathBuf>,
    /// How fast packets come, and what happens when the workers cannot follow: captures are lossless and generated
    /// traffic is live unless this or the file says otherwise; what comes by network interfaces is always live
    #[arg(long, value_enum)]
    pace: Option<Pace>,
    /// Seed of all hashes and of all that is drawn at random: the file's if not said. If neither says
    /// one it is 0 for captures in files and in virtual time, else drawn and told on standard error
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Serve a UDP address: datagrams come in there, answers go back to their senders
    #[arg(long, value_name = "UDP_ADDRESS", conflicts_with = "input")]
    listen: Option<SocketAddr>,
    /// Answer commands that look at the service or change it (`twinpath rules`, `flows`, `counters`, `top`,
    /// `drops`, `capture`, `change`, `apply` and others) at this local socket
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// Let members of this group use the socket, too, and not the user and root alone
    #[arg(long, value_name = "GROUP", requires = "control")]
    control_group: Option<Group>,
    /// End the run so long after it was ready for packets, such as 10s or 5m
    #[arg(long = "for", value_name = "TIME")]
    time: Option<Human>,
    /// Tell what happens as log lines on standard error, in place of the live table and of sentences
    /// for whoever sits in front of it: for services. In the journal each has its priority. The last ones are
    /// the summary
    #[arg(long, value_enum, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
    /// What the log tells
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "LEVEL",
        requires = "log_format"
    )]
    log_level: LogLevel,
    /// Show nothing but warnings and errors
    #[arg(long, short)]
    quiet: bool,
}

/// Where the report of generated traffic goes.
const DEFAULT_REPORT: &str = "twinpath-report";

/// Runs.
pub fn execute(arguments: &Arguments) -> Result<Outcome, CommandError> {
    match arguments.log_format {
        Some(format) => log::begin(format, arguments.log_level),
        None => log::begin_for_people(),
    }
    let service = arguments.service()?;
    output::warnings_about(&service);
    if let Some(path) = &arguments.steps {
        return arguments.run_steps(&service, path);
    }
    let ports = arguments.ports();
    let stop = Stop::on_signals()?;
    let opened = ports.open(&service);
    let mut opened = opened.map_err(|error| CommandError::from(error).placed(&service))?;
    drop_privileges(&opened);
    log::go_on_in_background();
    if opened.is_live() {
        host::watch(&service, &stop).map_err(CommandError::Output)?;
    }
    opened = opened.until(&stop.flag());
    opened.warnings.iter().for_each(output::warning);
    if let (Some(address), false) = (opened.local_address, arguments.quiet) {
        output::notice(format_args!(
            "{} serves {address}; Ctrl-C ends it",
            service.name
        ));
    }
    if arguments.pace == Some(Pace::Live) && service.run.execution == service::Execution::Virtual {
        output::warning(
            "--pace live has no effect: under virtual time nothing waits and nothing is lost",
        );
    }
    if let Some(time) = arguments.time {
        let stop = stop.clone();
        let begin = move || stop.after(time.duration());
        // Open interfaces are ready.
        match opened.is_live() {
            true => begin(),
            false => opened = opened.beginning(begin),
        }
    }
    if service.run.execution == service::Execution::Threads {
        opened.reload = Some(reload()?);
        opened.on_health = on_health();
    }
    let Finished {
        report, failure, ..
    } = run_opened(
        &service,
        &ports,
        opened,
        arguments.live(&service),
        &stop.flag(),
    )
    .map_err(|error| CommandError::from(error).placed(&service))?;
    for warning in &report.warnings {
        output::warning(warning);
    }
    if let Some(hint) = dpu::for_another(&service, &report) {
        output::warning(hint);
    }
    arguments.tell(&report)?;
    match failure {
        Some(failure) if !arguments.reader_has_gone(&failure) => Err(failure.into()),
        _ => Ok(Outcome::Good),
    }
}

/// The service file that was applied last is read again at SIGHUP.
fn reload() -> Result<Reload, CommandError> {
    Ok(Reload {
        is_asked: on_hangup()?,
        begin: Box::new(manager::reloading),
        tell: Box::new(|came| {
            manager::reloaded();
            tell_reloaded(came);
        }),
    })
}

fn tell_reloaded(came: Result<Reloaded, String>) {
    match came {
        Ok(reloaded) => {
            reloaded.warnings.iter().for_each(output::warning);
            let told = apply::told(&reloaded.applied);
            let path = reloaded.path.display();
            output::notice(format_args!(
                "service file read again: {path}: {}",
                told.trim_end()
            ));
        }
        Err(why) => output::warning(format_args!(
            "service file read again, and the service stays as it was: {why}"
        )),
    }
}

/// Somebody to hear how the run is, if anybody listens.
fn on_health() -> Option<OnHealth> {
    let has_manager = std::env::var_os("NOTIFY_SOCKET").is_some();
    if !has_manager && !log::has_begun() {
        return None;
    }
    let (mut manager, mut told) = (Manager::new(), HealthLog::default());
    Some(Box::new(move |health| {
        manager.hears(health);
        told.hears(health);
    }))
}

/// Interfaces are open, and no other thread has begun.
fn drop_privileges(opened: &OpenPorts) {
    if !opened.is_live() {
        return;
    }
    match privileges::drop(&opened.privileges()) {
        Ok(Some(capabilities)) => capabilities.tell(),
        Ok(None) => {}
        Err(error) => output::warning(format_args!("capabilities could not be dropped: {error}")),
    }
}

impl Arguments {
    /// The service as the file and the flags have it.
    fn service(&self) -> Result<Service, CommandError> {
        let copied = Copied::default();
        let mut service = Service::load_with(&self.service, &copied)?;
        super::dash::replace_config(&self.dash, &mut service)?;
        let run = &mut service.run;
        run.paths = self.paths.map_or(run.paths, Into::into);
        run.execution = self.execution.map_or(run.execution, Into::into);
        run.pace = self.pace.map(Into::into).or(run.pace);
        if let Some(seed) = self.seed.or_else(|| self.drawn_seed(&service)) {
            service.seed = seed;
        }
        if !self.repeats_itself(&service) {
            service.life = getrandom::u64().unwrap_or_default();
        }
        if self.control.is_some() && service.run.execution == service::Execution::Virtual {
            return Err(RunRefusal::ControlInVirtualTime.into());
        }
        if let Some(address) = self.listen {
            check_listening(&service, address)?;
        }
        let files = files::Files {
            service: &service,
            named: copied
                .into_files()
                .into_keys()
                .chain(super::dash::config_files(&self.dash))
                .collect(),
            input: self.input.as_deref(),
            output: self.output.as_deref(),
            report: self.report_folder(),
        };
        files.check()?;
        if let Some(folder) = self.report_folder() {
            Report::check_folder(folder)?;
        }
        check(&service)?;
        Ok(service)
    }

    /// Runs in steps.
    fn run_steps(&self, service: &Service, path: &Path) -> Result<Outcome, CommandError> {
        let list = steps::read(path)?;
        let (mut read, mut written) = steps::files(service, &list)?;
        read.extend([path.to_owned(), self.service.clone()]);
        let configs = service.chain.iter();
        let configs = configs.filter_map(|one| one.config.of::<dash::Config>());
        configs.for_each(|config| read.extend_from_slice(config.files()));
        written.extend(self.counters.clone());
        files::check_steps(&read, &written)?;
        let stop = Stop::on_signals()?;
        let counters = self.counters.as_deref();
        steps::execute(service, &list, counters, self.quiet, &stop.flag())
    }

    /// What comes from outside may be chosen to collide under a seed that is known: if nobody says
    /// one, it is drawn, and told. A file has nobody outside, and its replay repeats itself; what
    /// comes by standard input or another pipe may come from a wire.
    fn drawn_seed(&self, service: &Service) -> Option<u64> {
        if self.repeats_itself(service) || service.written.seed.is_some() {
            return None;
        }
        let seed = getrandom::u64().ok()?;
        // A quiet run tells it in its report alone.
        if !self.quiet || self.log_format.is_some() {
            output::notice(format_args!(
                "seed {seed} was drawn: --seed {seed} draws the same again"
            ));
        }
        Some(seed)
    }

    /// Whether another run does the same again.
    fn repeats_itself(&self, service: &Service) -> bool {
        let is_virtual = service.run.execution == service::Execution::Virtual;
        let is_file = |input: &Path| !is_piped(input);
        is_virtual || self.steps.is_some() || self.input.as_deref().is_some_and(is_file)
    }

    fn ports(&self) -> Ports {
        Ports {
            input: self.input.clone(),
            output: self.output.clone(),
            listen: self.listen,
            control: self.control.clone(),
            control_group: self.control_group.map(|Group(number)| number),
        }
    }

    fn live(&self, service: &Service) -> Live {
        if self.quiet || self.log_format.is_some() {
            return Live::hidden();
        }
        let is_generated = self.input.is_none() && self.listen.is_none();
        let traffic = service.traffic.as_ref().filter(|_| is_generated);
        let expected = Expected {
            packets: traffic.and_then(expected_packets),
            time: self.time.map(|time| time.duration()),
        };
        Live::on_stderr(&service.name, expected, Box::new(log::Lines))
    }

    /// The folder for the report.
    fn report_folder(&self) -> Option<&Path> {
        let is_generated = self.input.is_none() && self.listen.is_none() && self.steps.is_none();
        let default = (is_generated && !self.no_report).then_some(Path::new(DEFAULT_REPORT));
        self.report.as_deref().or(default)
    }

    fn tell(&self, report: &Report) -> Result<(), CommandError> {
        if let Some(folder) = self.report_folder() {
            report.write_to(folder)?;
        }
        if self.quiet {
            return Ok(());
        }
        if self.log_format == Some(LogFormat::Json) {
            self.log_end(report);
            return Ok(());
        }
        let mut text = summary(report);
        text.extend(self.report_folder().map(written));
        match (self.log_format, self.writes_standard_output()) {
            (Some(_), _) => text
                .lines()
                .filter(|line| !line.is_empty())
                .for_each(output::notice),
            (None, true) => output::notice(text.trim_end()),
            (None, false) => output::print(&text)?,
        }
        Ok(())
    }

    /// The summary as an event for programs, whose figures have their names in the report.
    fn log_end(&self, report: &Report) {
        let (totals, run) = (&report.totals, &report.run);
        tracing::info!(
            packets_in = totals.packets_in,
            packets_out = totals.packets_out,
            bytes_in = totals.bytes_in,
            bytes_out = totals.bytes_out,
            fast_packets = report.fast.packets,
            slow_packets = report.slow.packets,
            dropped = report.dropped(),
            lost = report.lost(),
            duration_wall_ns = run.duration_wall_ns,
            report = self
                .report_folder()
                .map(|folder| folder.join(JSON_FILE).display().to_string()),
            "the run is over"
        );
    }

    fn writes_standard_output(&self) -> bool {
        self.output.as_deref().is_some_and(is_standard)
    }

    /// Whether packets could not be written because who read them, as `head` does, has read enough.
    fn reader_has_gone(&self, failure: &CaptureError) -> bool {
        let is_gone = |error: &std::io::Error| error.kind() == std::io::ErrorKind::BrokenPipe;
        self.writes_standard_output()
            && matches!(failure, CaptureError::Write { source, .. } if is_gone(source))
    }
}

fn written(folder: &Path) -> String {
    let [html, json] = [HTML_FILE, JSON_FILE].map(|name| folder.join(name));
    format!("\nreport: {} (and {})\n", html.display(), json.display())
}

/// What listens must be answered, in real time.
fn check_listening(service: &Service, address: SocketAddr) -> Result<(), CommandError> {
    if service.run.execution == service::Execution::Virtual {
        return Err(RunRefusal::ListenInVirtualTime.into());
    }
    let chain = wiring::chain(service)?;
    let mut functions = chain.functions().iter();
    let store = functions.find_map(|function| function.kv_port());
    let store = store.ok_or(RunRefusal::NothingAnswers)?;
    match address.port() {
        listen if listen != store => Err(RunRefusal::OtherPort { listen, store }.into()),
        _ => Ok(()),
    }
}
