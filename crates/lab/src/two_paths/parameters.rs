//! What a plan says of the system under test.

use crate::model::ParameterError;
use crate::number::number;
use crate::testbed::{AgentPreset, CoresPreset, StorePreset, Testbed};
use crate::traffic::{self, TrafficParameters};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// Most cores of all devices together: a node's workers.
const MOST_CORES: usize = 64;

/// The parameters besides those of the [traffic](crate::traffic).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Parameters {
    /// The testbed's file, as seen from the plan.
    pub testbed: Option<PathBuf>,
    /// What runs.
    pub system: System,
    /// The functions, with `+` between them.
    pub chain: String,
    /// Which of the testbed's cores; if absent those named `server` for systems that need them, else the
    /// first by name.
    pub on: Option<String>,
    /// Instead of the testbed's: cards or sockets.
    pub devices: Option<usize>,
    /// Instead of the testbed's: cores of each.
    pub cores: Option<usize>,
    /// Cores of each function, with `+` between them; if absent, all do all.
    pub stage_cores: Option<String>,
    /// Whether cores of a function whose packets no longer come help the function after it.
    pub share_cores: bool,
    /// Instead of the testbed's: to the cores and back.
    pub round_trip_us: Option<f64>,
    /// Slots of the state table (SwitchNIC §6.2: 30k; §6.5: 32k).
    pub slots: usize,
    /// Ways of a bucket (SwitchNIC §5.1: a hash table, so 1).
    pub ways: usize,
    /// Packets in a window of the sketch that make a flow worth a slot (SwitchNIC §5.2: a threshold that is
    /// not given). Our assumption.
    pub hot_packets: u16,
    /// The sketch's window. Our assumption.
    pub sketch_window_us: f64,
    /// Silence after which a slot is given up (SwitchNIC §5.2: a time that is not given). Derived from
    /// §6.3: of 10^8 new flows a minute, 32k slots hold those of 20 ms.
    pub time_to_live_us: f64,
    /// Length of an evaluation window of rules (SFCache §III-E).
    pub window_ms: f64,
    /// Matches in a window above which a rule is cached (SFCache §III-E).
    pub threshold: u32,
    /// Instead of a threshold: matches a second, times the window.
    pub matches_per_s: Option<f64>,
    /// Windows without use after which a rule is taken out.
    pub idle_windows: u8,
    /// Instead of the testbed's: rules that the tables hold.
    pub entries: Option<usize>,
    /// Share of packets that the fast path cannot handle.
    pub complex_share: f64,
    /// Share of a key-value store's requests that write.
    pub write_share: f64,
    /// The rules of an inspector, as seen from the plan.
    pub inspector_rules: PathBuf,
    /// Whether the connections of an inspector have two ends: a handshake, and acknowledgements of what
    /// clients send. Without answers a connection stays half-open, and its packets go to the cores.
    pub answers: bool,
    /// Another chain that takes the place of the first one while packets come.
    pub replace_chain: Option<String>,
    /// When it does, in ms of the packets' time.
    pub replace_at_ms: f64,
    /// Share of the packets that come before measuring begins.
    pub warm_up: f64,
    /// How many times slower packets come until then.
    pub slow_start: f64,
    /// The rate as given, or the highest at which little enough is lost.
    pub rate: RateName,
    /// What may be lost at the highest rate: a share of the packets.
    pub loss_share: f64,
    /// What the fast path runs on.
    pub device: DeviceName,
    /// Instead of the testbed's: numbers of its parts, named as `agent.entries_per_s`.
    #[serde(skip)]
    pub instead: Vec<(String, f64)>,
    /// The traffic.
    #[serde(skip)]
    pub traffic: TrafficParameters,
}

/// What the fast path runs on.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceName {
    /// A switch's ASIC: what its budget has no room for is refused.
    #[default]
    Asic,
    /// Something that runs any program as fast: a plan with it claims nothing about a switch's room.
    Software,
}

impl DeviceName {
    /// As service files have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Asic => "asic",
            Self::Software => "software",
        }
    }
}

/// What runs; the [module](super) has a table.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum System {
    /// Flow state moves on the packets.
    #[default]
    TwoPaths,
    /// Rules, by a control-plane agent.
    RuleCache,
    /// Flow state that only the cores may write.
    ReadOnlyCache,
    /// Everything on the cores.
    ServerOnly,
    /// Headers to the workers, payloads to a store.
    HeaderSplit,
}

/// How fast packets come.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateName {
    /// As the plan says.
    #[default]
    Given,
    /// The highest, up to what the plan says, at which no more than `loss_share` is lost (RFC 2544).
    Highest,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            testbed: None,
            system: System::TwoPaths,
            chain: "load_balancer".into(),
            on: None,
            devices: None,
            cores: None,
            stage_cores: None,
            share_cores: false,
            round_trip_us: None,
            slots: 30_000,
            ways: 1,
            hot_packets: 4,
            sketch_window_us: 100_000.0,
            time_to_live_us: 20_000.0,
            window_ms: 100.0,
            threshold: 100,
            matches_per_s: None,
            idle_windows: 1,
            entries: None,
            complex_share: 0.0,
            write_share: 0.0,
            inspector_rules: "traffic/inspector.rules".into(),
            answers: false,
            replace_chain: None,
            replace_at_ms: 0.0,
            warm_up: 0.5,
            slow_start: 1.0,
            rate: RateName::Given,
            loss_share: 0.001,
            device: DeviceName::default(),
            instead: Vec::new(),
            traffic: TrafficParameters::default(),
        }
    }
}

/// Parameters and what they refer to: all that a run needs.
#[derive(Clone)]
pub(super) struct Setting {
    pub(super) parameters: Parameters,
    pub(super) testbed: Testbed,
    /// The cores' name in the testbed.
    pub(super) on: String,
    pub(super) functions: Vec<String>,
    /// Cores of each function, or of all together.
    pub(super) stages: Vec<usize>,
    pub(super) devices: usize,
    /// Cores of each device.
    pub(super) cores: usize,
    pub(super) folder: PathBuf,
}

impl Parameters {
    /// Reads and checks the parameters by themselves.
    pub(super) fn read(table: &Table, folder: &Path) -> Result<Self, ParameterError> {
        let (instead, rest): (Table, Table) = table
            .clone()
            .into_iter()
            .partition(|(name, _)| name.contains('.'));
        let (traffic, own): (Table, Table) = rest
            .into_iter()
            .partition(|(name, _)| traffic::FIELDS.contains(&name.as_str()));
        let mut parameters: Self = own.try_into()?;
        parameters.instead = numbers(instead)?;
        parameters.traffic = traffic.try_into()?;
        parameters.traffic.resolve(folder);
        parameters.traffic.check()?;
        parameters.check()?;
        parameters.inspector_rules = folder.join(&parameters.inspector_rules);
        parameters.testbed = parameters.testbed.map(|path| folder.join(path));
        Ok(parameters)
    }

    fn check(&self) -> Result<(), ParameterError> {
        let within = |value: f64, low: f64, high: f64| (low..=high).contains(&value);
        let count =
            |count: Option<usize>, most: usize| count.is_none_or(|n| (1..=most).contains(&n));
        let time = |us: f64| within(us, 1e-3, 1e9);
        let checks = [
            (count(self.devices, MOST_CORES), "devices", "1 to 64"),
            (count(self.cores, MOST_CORES), "cores", "1 to 64"),
            (
                self.round_trip_us.is_none_or(|us| within(us, 0.0, 1e6)),
                "round_trip_us",
                "0 to a second",
            ),
            (
                (1..=10_000_000).contains(&self.slots),
                "slots",
                "1 to 10 million",
            ),
            (self.hot_packets > 0, "hot_packets", "above 0"),
            (self.threshold > 0, "threshold", "above 0"),
            (matches!(self.ways, 1 | 2 | 4 | 8), "ways", "1, 2, 4 or 8"),
            (time(self.sketch_window_us), "sketch_window_us", "above 0"),
            (time(self.time_to_live_us), "time_to_live_us", "above 0"),
            (
                within(self.window_ms, 0.01, 1e6),
                "window_ms",
                "0.01 to a million",
            ),
            (
                self.matches_per_s.is_none_or(|n| within(n, 1e-3, 1e9)),
                "matches_per_s",
                "above 0 and at most a thousand million",
            ),
            (self.idle_windows > 0, "idle_windows", "above 0"),
            (
                count(self.entries, 16_000_000),
                "entries",
                "1 to 16 million",
            ),
            (
                within(self.complex_share, 0.0, 0.5),
                "complex_share",
                "0 to 0.5",
            ),
            (within(self.write_share, 0.0, 1.0), "write_share", "0 to 1"),
            (
                within(self.replace_at_ms, 0.0, 1e6),
                "replace_at_ms",
                "0 to a million",
            ),
            (within(self.warm_up, 0.0, 0.95), "warm_up", "0 to 0.95"),
            (
                within(self.slow_start, 1.0, 1e6),
                "slow_start",
                "1 to a million",
            ),
            (within(self.loss_share, 0.0, 0.5), "loss_share", "0 to 0.5"),
        ];
        let wrong = checks.into_iter().find(|(holds, ..)| !holds);
        wrong.map_or(Ok(()), |(_, field, range)| {
            Err(ParameterError::new(field, format!("must be {range}")))
        })
    }

    /// Matches in a window above which a rule is cached.
    pub(super) fn matches(&self) -> u32 {
        let per_s = self.matches_per_s;
        per_s.map_or(self.threshold, |per_s| {
            (per_s * self.window_ms / 1e3) as u32
        })
    }

    /// Finds everything that the parameters refer to.
    pub(super) fn setting(self) -> Result<Setting, ParameterError> {
        let path = self
            .testbed
            .as_deref()
            .ok_or_else(|| ParameterError::new("testbed", "missing: the file with the devices"))?;
        let mut testbed =
            Testbed::load(path).map_err(|e| ParameterError::new("testbed", e.to_string()))?;
        for (name, value) in &self.instead {
            let set = testbed.set(name, *value);
            set.map_err(|wrong| ParameterError::new(name.clone(), wrong))?;
        }
        self.traffic.check_complete()?;
        let on = self.cores_name(&testbed)?;
        let preset = &testbed.cores[&on];
        let functions = functions(&self.chain, "chain")?;
        let cores = self.cores.unwrap_or(preset.cores.count());
        let setting = Setting {
            devices: self.devices.unwrap_or(preset.devices.count()),
            stages: self.stages(functions.len(), cores)?,
            cores,
            folder: path.parent().unwrap_or(Path::new(".")).into(),
            functions,
            on,
            testbed,
            parameters: self,
        };
        setting.check()?;
        Ok(setting)
    }

    fn cores_name(&self, testbed: &Testbed) -> Result<String, ParameterError> {
        let usual = match self.system {
            System::ServerOnly | System::HeaderSplit => testbed.cores.get_key_value("server"),
            _ => None,
        };
        let usual = usual.or_else(|| {
            let mut others = testbed.cores.iter();
            others
                .find(|(name, _)| *name != "server")
                .or(testbed.cores.iter().next())
        });
        let found = match &self.on {
            Some(name) => testbed.cores.get_key_value(name),
            None => usual,
        };
        found.map(|(name, _)| name.clone()).ok_or_else(|| {
            let names: Vec<&str> = testbed.cores.keys().map(String::as_str).collect();
            ParameterError::new(
                "on",
                format!("the testbed's cores are: {}", names.join(", ")),
            )
        })
    }

    fn stages(&self, functions: usize, cores: usize) -> Result<Vec<usize>, ParameterError> {
        let Some(text) = &self.stage_cores else {
            return Ok(vec![cores]);
        };
        let wrong = || {
            let expected =
                format!("expected {functions} numbers with + between them, {cores} cores together");
            ParameterError::new("stage_cores", expected)
        };
        let numbers: Result<Vec<usize>, _> = text.split('+').map(|n| n.trim().parse()).collect();
        let numbers = numbers.map_err(|_| wrong())?;
        let fits = numbers.len() == functions
            && numbers.iter().sum::<usize>() == cores
            && numbers.iter().all(|n| *n > 0);
        fits.then_some(numbers).ok_or_else(wrong)
    }
}

/// What a plan says instead of a testbed's numbers.
fn numbers(table: Table) -> Result<Vec<(String, f64)>, ParameterError> {
    let each = |(name, value): (String, Value)| match number(&value) {
        Some(value) => Ok((name, value)),
        None => Err(ParameterError::new(name, "expected a number")),
    };
    table.into_iter().map(each).collect()
}

/// The names in a chain as plans write it.
fn functions(chain: &str, field: &'static str) -> Result<Vec<String>, ParameterError> {
    let known = [
        "acl",
        "firewall",
        "inspector",
        "kv_store",
        "load_balancer",
        "napt",
        "reassembler",
    ];
    let functions: Vec<String> = chain
        .split('+')
        .map(|name| name.trim().to_owned())
        .collect();
    match functions
        .iter()
        .find(|name| !known.contains(&name.as_str()))
    {
        None => Ok(functions),
        Some(name) => {
            let message = format!("{name:?} is none of: {}", known.join(", "));
            Err(ParameterError::new(field, message))
        }
    }
}

impl Setting {
    /// The same with the chain that takes the place of the first, if there is one.
    pub(super) fn replaced(&self) -> Result<Option<Self>, ParameterError> {
        let Some(chain) = &self.parameters.replace_chain else {
            return Ok(None);
        };
        if self.stages.len() > 1 {
            let message = "with stage_cores, cores belong to functions: these cannot be replaced";
            return Err(ParameterError::new("replace_chain", message));
        }
        let functions = functions(chain, "replace_chain")?;
        Ok(Some(Self {
            functions,
            ..self.clone()
        }))
    }

    pub(super) fn preset(&self) -> &CoresPreset {
        &self.testbed.cores[&self.on]
    }

    pub(super) fn agent(&self) -> Option<&AgentPreset> {
        let agent = self.testbed.agent.as_ref();
        agent.filter(|_| self.parameters.system == System::RuleCache)
    }

    pub(super) fn store(&self) -> Option<&StorePreset> {
        let store = self.testbed.store.as_ref();
        store.filter(|_| self.parameters.system == System::HeaderSplit)
    }

    /// Whether every packet passes the whole chain on the cores.
    pub(super) fn is_all_slow(&self) -> bool {
        matches!(
            self.parameters.system,
            System::ServerOnly | System::HeaderSplit
        )
    }

    pub(super) fn one_way_us(&self) -> f64 {
        let given = self.parameters.round_trip_us;
        given.unwrap_or(self.preset().round_trip_us.value()) / 2.0
    }

    pub(super) fn packets_per_s(&self) -> Result<f64, ParameterError> {
        let wire_bytes = self.testbed.switch.wire_bytes.value();
        self.parameters.traffic.packets_per_s(wire_bytes)
    }

    /// A store's keys are all written before anything else comes: that is no part of what is measured.
    fn check_preload(&self) -> Result<(), ParameterError> {
        let traffic = &self.parameters.traffic;
        let before = (traffic.packets as f64 * self.parameters.warm_up) as u64;
        if !self.has("kv_store") || traffic.capture.is_some() || before >= traffic.flows {
            return Ok(());
        }
        let message = format!(
            "measuring begins after {before} packets, while the store's {} keys are still being written: \
             more packets, fewer flows or a longer warm_up",
            traffic.flows
        );
        Err(ParameterError::new("packets", message))
    }

    fn check(&self) -> Result<(), ParameterError> {
        self.check_preload()?;
        let system = self.parameters.system;
        if system == System::RuleCache && self.testbed.agent.is_none() {
            return Err(ParameterError::new("system", "the testbed has no agent"));
        }
        if system == System::HeaderSplit && self.testbed.store.is_none() {
            return Err(ParameterError::new(
                "system",
                "the testbed has no store for payloads",
            ));
        }
        if self.devices * self.cores > MOST_CORES {
            let message = format!("more than {MOST_CORES} cores of all devices together");
            return Err(ParameterError::new("devices", message));
        }
        if self.parameters.traffic.capture.is_none() {
            let most = self.testbed.switch.capacity_mpps.value();
            if self.packets_per_s()? > most * 1e6 * 1.000_001 {
                let field = match self.parameters.traffic.input_mpps {
                    Some(_) => "input_mpps",
                    None => "input_gbps",
                };
                let message = format!("the switch takes {most} million packets a second");
                return Err(ParameterError::new(field, message));
            }
        }
        Ok(())
    }
}
