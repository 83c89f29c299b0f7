//! Which flows packets belong to, which way they go, and what causes them.

use super::functions::{chain, element_chain, elements, seed_of};
use crate::admission::Admission;
use crate::build_error::BuildError;
use crate::causality::{Causality, Scope};
use crate::fast_path::{EgressCheck, Joints};
use crate::mtu::Mtus;
use std::sync::Arc;
use twinpath_classify::Prefix;
use twinpath_control::service::{Instance, Service};
use twinpath_core::steering::Steering;
use twinpath_dash::tables::Tables;
use twinpath_nf::descriptor::{Form, Reception};
use twinpath_rulecache::Sides;

/// How packets are assigned to flows.
///
/// # Errors
/// Functions whose flows do not go together, or a file that a function needs.
pub fn steering(service: &Service) -> Result<Steering, BuildError> {
    let whole = chain(service)?.steering(service.seed)?;
    let shares = |instances: &&[Instance]| instances[0].shares_state();
    if elements(service).filter(shares).count() < 2 {
        return Ok(whole);
    }
    let own = elements(service)
        .map(|instances| Ok(element_chain(service, instances)?.steering(service.seed)?));
    let own: Result<_, BuildError> = own.collect();
    Ok(whole.with_elements(own?))
}

/// What is let into the chain, and which way it goes.
///
/// # Errors
/// Too many networks inside.
pub fn admission(service: &Service) -> Result<Admission, BuildError> {
    let inside = Sides::new(&service.inside)?;
    let (sides, inside) = match service.inside_ports.as_slice() {
        [] => (inside, None),
        ports => (Sides::of_ports(ports), Some(inside)),
    };
    let mut each = service.chain.iter();
    let opens_tunnels = each.any(|instance| matches!(instance.form(), Form::Dash));
    let admission = Admission::new(sides, inside, &service.entrance);
    Ok(admission
        .with_given_out(given_out(service)?)
        .with_reception(reception(service))
        .with_tunnels(opens_tunnels))
}

/// What translations of the chain give out to hosts inside, if there are any.
fn given_out(service: &Service) -> Result<Option<Sides>, BuildError> {
    let addresses = translated(service);
    Ok(match addresses.is_empty() {
        true => None,
        false => Some(Sides::new(&addresses)?),
    })
}

/// Addresses that translations of the chain put in the place of others.
fn translated(service: &Service) -> Vec<Prefix> {
    let chain = service.chain.iter();
    let translations = chain.filter_map(|instance| instance.config.translation());
    translations
        .flat_map(|translation| [translation.external, translation.outside].concat())
        .collect()
}

/// Where packets of other shards enter the chain.
///
/// # Errors
/// Too many external addresses.
pub fn joints(service: &Service) -> Result<Joints, BuildError> {
    if service.run.shards.0 == 1 {
        return Ok(Joints::default());
    }
    let joints = (0..)
        .zip(elements(service))
        .filter_map(|(number, instances)| {
            let config = &instances[0].config;
            let translation = config.translation().filter(|_| config.joins_shards())?;
            Some((translation.external, number))
        });
    let joints = joints.map(|(external, number)| Ok((Sides::new(external)?, number)));
    Ok(Joints::new(joints.collect::<Result<_, BuildError>>()?))
}

/// Whether one service lets other frames in than another, or sends them another way.
pub fn admits_otherwise(one: &Service, other: &Service) -> bool {
    let said = |service: &Service| (service.inside.clone(), service.inside_ports.clone());
    said(one) != said(other)
        || translated(one) != translated(other)
        || one.entrance != other.entrance
        || reception(one) != reception(other)
}

/// What of the frames that arrive the chain's router takes.
fn reception(service: &Service) -> Option<Reception> {
    let mut each = service.chain.iter();
    each.find_map(|instance| instance.config.reception())
}

/// Whether a router of the chain has the kernel's routes.
pub fn follows_kernel(service: &Service) -> bool {
    let mut each = service.chain.iter();
    each.any(|instance| {
        let router = instance.config.of::<twinpath_nf::router::Config>();
        router.is_some_and(|router| router.kernel_table().is_some())
    })
}

/// The chain's router, which tells senders of packets that are too long for the links of ports, or whose next
/// hops do not answer.
pub fn egress_check(service: &Service) -> Option<EgressCheck> {
    let mut each = service.chain.iter();
    let router = each.find_map(|instance| instance.config.undelivered(service.seed))?;
    Some(EgressCheck::new(Mtus::of(service), router))
}

/// What packets meet in the service's DPU, if it is one.
fn tables_of_dpu(service: &Service) -> Option<Arc<Tables>> {
    let mut each = service.chain.iter();
    each.find_map(|instance| tables_of(service, instance))
}

/// What packets meet in a DPU, if an instance is one.
pub fn tables_of(service: &Service, instance: &Instance) -> Option<Arc<Tables>> {
    let config = instance.config.of::<twinpath_nf::dash::Config>()?;
    Some(config.tables(seed_of(service, instance)))
}

/// What makes generated packets wait for what caused them: their answers are to hosts inside.
///
/// # Errors
/// A file that a function needs.
pub fn causality_of_hosts(service: &Service) -> Result<Causality, BuildError> {
    if let Some(tables) = tables_of_dpu(service) {
        return Ok(Causality::new(Scope::EniPeers(tables)));
    }
    Ok(Causality::new(Scope::Hosts(steering(service)?)))
}

/// What makes packets of a replay wait for what caused them.
///
/// # Errors
/// A file that a function needs, or too many networks inside.
pub fn causality(service: &Service) -> Result<Causality, BuildError> {
    if let Some(tables) = tables_of_dpu(service) {
        return Ok(Causality::new(Scope::Enis(tables)));
    }
    let chain = service.chain.iter();
    let translations = chain.filter_map(|instance| instance.config.translation());
    let (mut inside, mut external) = (Vec::new(), Vec::new());
    for translation in translations {
        inside.extend(translation.inside);
        external.extend(translation.external);
    }
    Ok(Causality::new(match external.is_empty() {
        true => Scope::Hosts(steering(service)?),
        false => Scope::Translated {
            steering: steering(service)?,
            inside: Sides::new(&inside)?,
            external: Sides::new(&external)?,
        },
    }))
}
