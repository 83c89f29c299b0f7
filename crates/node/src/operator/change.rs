//! Changes of the service while it runs, one after the other.
//!
//! Each shard changes by itself, between two of its bursts, and one after the other. So all have the
//! new chain or none has: where one refuses, those before it go back to the old one.

use super::{Control, INTERVAL, Reloaded, TIMEOUT, has_no_bindings, over, told};
use crate::build_error::BuildError;
use crate::command::{ChangeResult, Command};
use crate::machine::{ChangeRefusal, Changed};
use crate::replacement::{ReplaceError, Replacement};
use crate::shards::{Partition, share};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, TryRecvError};
use std::sync::{Arc, MutexGuard, TryLockError};
use std::time::Instant as WallClock;
use twinpath_control::operator::Applied;
use twinpath_control::service::{Service, ServiceError, differing_keys, warnings};
use twinpath_core::wire::Endpoint;
use twinpath_nf::bindings::EndBindings;
use twinpath_nf::edit::{Edit, Object};
use twinpath_nf::files::{Disk, Files};
use twinpath_nf::records::{Kind, KindError};
use twinpath_nf::shard::Shard;

/// How often a change is tried that finds another under way.
const ATTEMPTS: usize = 100;

/// A change that a shard has not answered in time.
pub struct Unanswered {
    answer: mpsc::Receiver<ChangeResult>,
    shard: usize,
    /// What the service is if the change is made after all, and what it is if not.
    new: Arc<Service>,
    old: Arc<Service>,
    /// How packets were divided before it.
    divided: Divided,
}

/// How packets belonged to shards, where there are several.
type Divided = Option<Arc<Partition>>;

/// What each shard that changes is to become.
pub(super) type Plans = Vec<(usize, Replacement)>;

/// The right to change the service.
pub(super) type Changing<'a> = MutexGuard<'a, Option<Unanswered>>;

/// Why a shard has not changed.
enum Unchanged {
    /// It refuses, or is over.
    Refused(String),
    /// It has not answered; perhaps it does.
    Unanswered(mpsc::Receiver<ChangeResult>),
}

impl crate::kernel::ServiceEditor for Control {
    fn edit_service(&self, edit: &mut dyn FnMut(&Service) -> Service) -> Result<Applied, String> {
        let mut changing = self.begin_change()?;
        let old = self.service();
        let new = edit(&old);
        let plans = self.plans(&old, &new).map_err(told)?;
        // Whoever follows the kernel tells the log: there may be many changes.
        self.make_unsaid(plans, new, &mut changing)
    }
}

/// What is to be told of a service, and was not of the one before.
fn new_warnings(old: &Service, new: &Service) -> Vec<String> {
    let known: Vec<String> = messages(old).collect();
    messages(new)
        .filter(|message| !known.contains(message))
        .collect()
}

fn messages(service: &Service) -> impl Iterator<Item = String> {
    warnings(service).into_iter().map(|fault| fault.message)
}

impl Control {
    /// The service file that the service is made of now is read again, with the rights of the service:
    /// the one that the run began with, or the one that was applied last.
    pub(super) fn reload(&self) -> Result<Reloaded, String> {
        let path = self.service().file.path.to_path_buf();
        let text = Disk.read(&path);
        let text = text.map_err(|error| told(ServiceError::unreadable(&path, error)))?;
        let applied = self.apply(&text, &path, &Disk)?;
        let warnings = warnings(&self.service());
        Ok(Reloaded {
            path,
            applied,
            warnings,
        })
    }

    pub(super) fn apply(
        &self,
        text: &str,
        path: &Path,
        files: &dyn Files,
    ) -> Result<Applied, String> {
        let mut changing = self.begin_change()?;
        let old = self.service();
        let mut new = Service::parse_with(text, path, files).map_err(told)?;
        // What the command line said stays.
        (new.run, new.seed, new.life) = (old.run, old.seed, old.life);
        new.adopt_adjacencies(&old).map_err(told)?;
        let plans = self.plans(&old, &new);
        let plans = plans.map_err(|error| told(new.wrong_at(&error.keys(), error.to_string())))?;
        let forgotten = super::dash::forgotten(&old, &new);
        let applied = self.make(plans, new, &mut changing)?;
        Ok(Applied {
            flows: self.dpu_flows(),
            forgotten,
            ..applied
        })
    }

    pub(super) fn change(&self, function: Option<&str>, edit: &Edit) -> Result<Applied, String> {
        let mut changing = self.begin_change()?;
        let old = self.service();
        let new = old.edited(function, edit).map_err(told)?;
        let plans = self.plans(&old, &new).map_err(told)?;
        let warnings = new_warnings(&old, &new);
        let applied = self.make(plans, new, &mut changing)?;
        for warning in &warnings {
            tracing::warn!("{warning}");
        }
        Ok(Applied {
            warnings,
            ..applied
        })
    }

    pub(super) fn end_binding(
        &self,
        function: Option<&str>,
        endpoint: &str,
        protocol: Option<&str>,
    ) -> Result<Applied, String> {
        let mut changing = self.begin_change()?;
        let service = self.service();
        let (place, function) = service
            .function_with(function, Object::Binding)
            .map_err(told)?;
        let endpoint: Endpoint = endpoint
            .parse()
            .map_err(|why| format!("{endpoint:?} is {why}"))?;
        let kind = |text: &str| {
            text.parse()
                .map_err(|why: KindError| format!("{text:?} is {why}"))
        };
        let kind: Option<Kind> = protocol.map(kind).transpose()?;
        let which = EndBindings {
            internal: endpoint,
            kind,
        };
        let mut plans = Vec::new();
        for shard in Shard::all(self.shards() as u16) {
            let number = shard.number.into();
            if !self.ask_translation(number, function, place, move |all| all.has(which))? {
                continue;
            }
            let change = function.config.end_bindings(which);
            let change = change.ok_or_else(has_no_bindings)?;
            let own = share(&service, shard).map_err(told)?;
            let plan = Replacement::of_function(&own, place, change).map_err(told)?;
            plans.push((number, plan));
        }
        if plans.is_empty() {
            let of = kind.map_or(String::new(), |kind| format!(" of {kind}"));
            return Err(format!(
                "{endpoint} has no binding{of}: expected the endpoint inside of one that `bindings` shows"
            ));
        }
        let same = Service::clone(&service);
        self.make(plans, same, &mut changing)
    }

    /// What every shard is to become.
    pub(super) fn plans(&self, old: &Service, new: &Service) -> Result<Plans, ReplaceError> {
        let shards = Shard::all(self.shards() as u16);
        let plan = |shard: Shard| {
            let between = Replacement::between(&share(old, shard)?, &share(new, shard)?)?;
            Ok((shard.number.into(), between))
        };
        shards.map(plan).collect()
    }

    /// Packets belong to shards as the new service has it, before any shard is that service. Returns how they
    /// did.
    fn divide_for(&self, new: &Service) -> Result<Divided, String> {
        let Some(current) = &self.partition else {
            return Ok(None);
        };
        let partition = Partition::of(new, self.shards() as u16);
        let partition = partition.map_err(|error: BuildError| told(error))?;
        current.becomes(&partition).map(Some).map_err(told)
    }

    /// Packets belong to shards as they did: no shard is the new service.
    fn divide_as(&self, former: Divided) {
        if let (Some(current), Some(former)) = (&self.partition, former) {
            current.put_back(former);
        }
    }

    /// Nobody else changes the service until the guard is dropped.
    pub(super) fn begin_change(&self) -> Result<Changing<'_>, String> {
        let until = WallClock::now() + TIMEOUT;
        let mut changing = loop {
            match self.change.try_lock() {
                Ok(changing) => break changing,
                // Whoever panicked has changed nothing.
                Err(TryLockError::Poisoned(changing)) => break changing.into_inner(),
                Err(TryLockError::WouldBlock) if WallClock::now() < until => {
                    std::thread::sleep(INTERVAL);
                }
                Err(TryLockError::WouldBlock) => return Err(ChangeRefusal::Busy.to_string()),
            }
        };
        self.hear_of_earlier_change(&mut changing)?;
        Ok(changing)
    }

    /// The service becomes another, and the log hears of it.
    pub(super) fn make(
        &self,
        plans: Plans,
        new: Service,
        changing: &mut Changing<'_>,
    ) -> Result<Applied, String> {
        let applied = self.make_unsaid(plans, new, changing)?;
        if applied.is_same {
            return Ok(applied);
        }
        let (kept, changed) = (applied.kept.join(","), applied.changed.join(","));
        let (added, removed) = (applied.new.join(","), applied.removed.join(","));
        let pause_us = applied.pause_ns / 1000;
        let keys = applied.keys.join(",");
        tracing::info!(
            kept,
            changed,
            added,
            removed,
            keys,
            pause_us,
            "service changed"
        );
        if !applied.anew.is_empty() {
            let functions = applied.anew.join(",");
            tracing::warn!(
                functions,
                "they begin anew: they share flow state with others than before"
            );
        }
        Ok(applied)
    }

    fn make_unsaid(
        &self,
        plans: Plans,
        new: Service,
        changing: &mut Changing<'_>,
    ) -> Result<Applied, String> {
        let new = Arc::new(new);
        let first = plans.first().map(|(_, plan)| plan.applied.clone());
        let mut applied = first.unwrap_or_default();
        applied.is_same = plans.iter().all(|(_, plan)| plan.is_empty());
        let keys = differing_keys(&self.service(), &new).into_iter();
        applied.keys = keys.map(str::to_owned).collect();
        let is_other = whole(&self.service().file.path) != whole(&new.file.path);
        applied.file = is_other.then(|| new.file.path.to_path_buf());
        if !applied.is_same {
            self.change_all(plans, &new, changing, &mut applied)?;
        }
        self.becomes(new);
        Ok(applied)
    }

    /// All shards change, or none.
    fn change_all(
        &self,
        mut plans: Plans,
        new: &Arc<Service>,
        changing: &mut Changing<'_>,
        applied: &mut Applied,
    ) -> Result<(), String> {
        plans.iter_mut().for_each(|(_, plan)| plan.touch());
        let divided = self.divide_for(new)?;
        let mut changed = Vec::new();
        for (shard, plan) in plans {
            let why = match self.replace(shard, Box::new(plan)) {
                Ok(done) => {
                    applied.pause_ns = applied.pause_ns.max(done.pause.as_nanos() as u64);
                    applied.rules_gone += done.rules_gone;
                    applied.rules_kept += done.rules_kept;
                    self.keep_left(done.left);
                    changed.push(shard);
                    continue;
                }
                Err(why) => why,
            };
            let old = self.service();
            let (why, divided) = match why {
                Unchanged::Refused(why) => (why, divided),
                Unchanged::Unanswered(answer) => {
                    **changing = Some(Unanswered {
                        answer,
                        shard,
                        new: Arc::clone(new),
                        old: Arc::clone(&old),
                        divided,
                    });
                    let why = format!("{}: the change may still be made", silent());
                    (why, None)
                }
            };
            self.change_back(&changed, new, &old)?;
            self.divide_as(divided);
            return Err(why);
        }
        Ok(())
    }

    /// Shards that have changed become what they were.
    fn change_back(&self, shards: &[usize], new: &Service, old: &Service) -> Result<(), String> {
        if shards.is_empty() {
            return Ok(());
        }
        for (shard, mut plan) in self.plans(new, old).map_err(told)? {
            if !shards.contains(&shard) {
                continue;
            }
            plan.touch();
            let why = match self.replace(shard, Box::new(plan)) {
                Ok(_) => continue,
                Err(Unchanged::Refused(why)) => why,
                Err(Unchanged::Unanswered(_)) => silent(),
            };
            tracing::error!(shard, why, "a shard has another chain than the others");
            return Err(format!(
                "shard {shard} has the new chain and others the old one, for it does not go back: {why}; the service is to be started again"
            ));
        }
        Ok(())
    }

    fn replace(
        &self,
        shard: usize,
        mut replacement: Box<Replacement>,
    ) -> Result<Changed, Unchanged> {
        for _ in 0..ATTEMPTS {
            let (sender, answer) = mpsc::channel();
            let command = Command::Replace(replacement, sender);
            self.tell(shard, command).map_err(Unchanged::Refused)?;
            match answer.recv_timeout(TIMEOUT) {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err((returned, ChangeRefusal::Busy))) => replacement = returned,
                Ok(Err((_, why))) => return Err(Unchanged::Refused(why.to_string())),
                Err(RecvTimeoutError::Disconnected) => return Err(Unchanged::Refused(over())),
                Err(RecvTimeoutError::Timeout) => return Err(Unchanged::Unanswered(answer)),
            }
            std::thread::sleep(INTERVAL);
        }
        Err(Unchanged::Refused(ChangeRefusal::Busy.to_string()))
    }

    /// What the service is now may depend on a change that was not answered in time.
    fn hear_of_earlier_change(&self, changing: &mut Changing<'_>) -> Result<(), String> {
        let Some(earlier) = changing.take() else {
            return Ok(());
        };
        match earlier.answer.try_recv() {
            Ok(Ok(_)) if self.shards() == 1 => self.becomes(earlier.new),
            // The other shards have not changed, or have changed back.
            Ok(Ok(_)) => {
                self.change_back(&[earlier.shard], &earlier.new, &earlier.old)?;
                self.divide_as(earlier.divided);
            }
            Ok(Err(_)) | Err(TryRecvError::Disconnected) => self.divide_as(earlier.divided),
            Err(TryRecvError::Empty) => {
                **changing = Some(earlier);
                return Err("an earlier change is still being made".into());
            }
        }
        Ok(())
    }
}

/// What is said of a shard that does not answer.
fn silent() -> String {
    let seconds = TIMEOUT.as_secs();
    format!("the run has not answered for {seconds} s")
}

/// A path from the root on: a run may have been given a shorter one.
fn whole(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deferred_free::DeferredFree;
    use crate::shards::CurrentPartition;
    use std::sync::Mutex;
    use std::thread::JoinHandle;
    use std::time::Duration;
    use twinpath_control::report::Report;

    const OLD: &str = "[service]\nchain = [\"firewall\"]\n[firewall]\ndefault = \"allow\"\n";

    /// A shard that answers so many changes as they are listed, and tells how often it was asked.
    fn shard(answers: Vec<Option<ChangeRefusal>>) -> (mpsc::Sender<Command>, JoinHandle<usize>) {
        let (sender, commands) = mpsc::channel();
        let answer = move || {
            let mut asked = 0;
            while let Ok(Command::Replace(replacement, answer)) = commands.recv() {
                let said = match answers[asked] {
                    Some(refusal) => Err((replacement, refusal)),
                    None => Ok(Changed {
                        pause: Duration::ZERO,
                        rules_gone: 0,
                        rules_kept: 0,
                        left: Vec::new(),
                        to_free: DeferredFree::default(),
                    }),
                };
                asked += 1;
                answer.send(said).expect("somebody waits");
            }
            asked
        };
        (sender, std::thread::spawn(answer))
    }

    /// What is said of a change of two shards that answer so, how often each was asked, and whether the
    /// service is the old one.
    fn changed(answers: [Vec<Option<ChangeRefusal>>; 2]) -> (Result<(), String>, Vec<usize>, bool) {
        let (new, partition) = (OLD.replace("allow", "deny"), None);
        let (said, asked, is_old) = become_other([OLD, &new], partition, answers);
        (said, asked, is_old)
    }

    /// The same of a change of one service into another, whose packets are divided so.
    fn become_other(
        [old, new]: [&str; 2],
        partition: Option<CurrentPartition>,
        answers: [Vec<Option<ChangeRefusal>>; 2],
    ) -> (Result<(), String>, Vec<usize>, bool) {
        let old = Service::parse(old, Path::new("test.toml")).expect("sound");
        let old = Arc::new(old);
        let (senders, shards): (Vec<_>, Vec<_>) = answers.into_iter().map(shard).unzip();
        let control = Control {
            service: Mutex::new(Arc::clone(&old)),
            shards: senders,
            partition,
            change: Mutex::new(None),
            report: Report::default(),
            mirror: Arc::default(),
            exported: Mutex::new(None),
            left: Mutex::default(),
        };
        let said = control.apply(new, Path::new("test.toml"), &Disk);
        let is_old = Arc::ptr_eq(&control.service(), &old);
        drop(control);
        let asked = shards
            .into_iter()
            .map(|shard| shard.join().expect("no panic"));
        (said.map(|_| ()), asked.collect(), is_old)
    }

    #[test]
    fn all_shards_change() {
        let (said, asked, is_old) = changed([vec![None], vec![None]]);
        assert_eq!((said, asked, is_old), (Ok(()), vec![1, 1], false));
    }

    #[test]
    fn where_one_refuses_those_before_it_go_back() {
        let refuses = Some(ChangeRefusal::NotQuiet);
        let (said, asked, is_old) = changed([vec![None, None], vec![refuses]]);
        assert_eq!(said, Err(ChangeRefusal::NotQuiet.to_string()));
        assert_eq!((asked, is_old), (vec![2, 1], true));
        // The first refuses: nobody else is asked.
        let (said, asked, is_old) = changed([vec![refuses], vec![]]);
        assert!(said.is_err());
        assert_eq!((asked, is_old), (vec![1, 0], true));
    }

    #[test]
    fn a_shard_that_does_not_go_back_is_told() {
        let refuses = Some(ChangeRefusal::NotQuiet);
        let (said, asked, is_old) = changed([vec![None, refuses], vec![refuses]]);
        let said = said.expect_err("it is refused");
        assert!(said.starts_with("shard 0 has the new chain"), "{said}");
        assert_eq!((asked, is_old), (vec![2, 1], true));
    }

    const BALANCED: &str = "[service]\nchain = [\"load_balancer\"]\n[load_balancer]\nservices = [\n\
        { vip = \"10.255.0.1:80\", protocol = \"tcp\", backends = [{ endpoint = \"10.254.0.1:80\" }] },\n";
    const ONE_MORE: &str = "{ vip = \"10.255.0.2:80\", protocol = \"tcp\", backends = [{ endpoint = \"10.254.0.2:80\" }] },\n";

    /// Packets of a service that was to come belong to shards as before where a shard refuses it.
    #[test]
    fn a_refused_change_divides_nothing_anew() {
        let old = format!("{BALANCED}]\n");
        let new = format!("{BALANCED}{ONE_MORE}]\n");
        let parsed = Service::parse(&old, Path::new("test.toml")).expect("sound");
        let services = |partition: &CurrentPartition| partition.clone().get().services();
        for (answers, comes) in [
            ([vec![None], vec![None]], true),
            ([vec![Some(ChangeRefusal::NotQuiet)], vec![]], false),
            (
                [vec![None, None], vec![Some(ChangeRefusal::Crashed)]],
                false,
            ),
        ] {
            let partition = CurrentPartition::of(&parsed, 2).expect("sound");
            let before = services(&partition);
            let shared = Some(partition.clone());
            let (said, _, _) = become_other([&old, &new], shared, answers);
            assert_eq!(said.is_ok(), comes, "{said:?}");
            assert_eq!(services(&partition) > before, comes, "{said:?}");
        }
    }
}
