//! Nodes of graphs, and kinds of capture that this device does not have: they return `CUDA_ERROR_NOT_SUPPORTED`.

#![allow(non_snake_case, reason = "the driver's names")]

use core::ffi::{c_uint, c_ulonglong, c_void};

use cuda_sys::{
    CUDA_BATCH_MEM_OP_NODE_PARAMS, CUDA_EXT_SEM_SIGNAL_NODE_PARAMS, CUDA_EXT_SEM_WAIT_NODE_PARAMS,
    CUgraph, CUgraphExec, CUgraphNode, CUgraphRecaptureCallback, CUstream, CUstreamCaptureMode,
    CUstreamCigCaptureParams,
};

use crate::driver::call::refused;

refused! {
    fn cuGraphAddBatchMemOpNode(*mut CUgraphNode, CUgraph, *const CUgraphNode, usize, *const CUDA_BATCH_MEM_OP_NODE_PARAMS);
    fn cuGraphAddExternalSemaphoresSignalNode(*mut CUgraphNode, CUgraph, *const CUgraphNode, usize, *const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS);
    fn cuGraphAddExternalSemaphoresWaitNode(*mut CUgraphNode, CUgraph, *const CUgraphNode, usize, *const CUDA_EXT_SEM_WAIT_NODE_PARAMS);
    fn cuGraphBatchMemOpNodeGetParams(CUgraphNode, *mut CUDA_BATCH_MEM_OP_NODE_PARAMS);
    fn cuGraphBatchMemOpNodeSetParams(CUgraphNode, *const CUDA_BATCH_MEM_OP_NODE_PARAMS);
    fn cuGraphExecBatchMemOpNodeSetParams(CUgraphExec, CUgraphNode, *const CUDA_BATCH_MEM_OP_NODE_PARAMS);
    fn cuGraphExecExternalSemaphoresSignalNodeSetParams(CUgraphExec, CUgraphNode, *const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS);
    fn cuGraphExecExternalSemaphoresWaitNodeSetParams(CUgraphExec, CUgraphNode, *const CUDA_EXT_SEM_WAIT_NODE_PARAMS);
    fn cuGraphExternalSemaphoresSignalNodeGetParams(CUgraphNode, *mut CUDA_EXT_SEM_SIGNAL_NODE_PARAMS);
    fn cuGraphExternalSemaphoresSignalNodeSetParams(CUgraphNode, *const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS);
    fn cuGraphExternalSemaphoresWaitNodeGetParams(CUgraphNode, *mut CUDA_EXT_SEM_WAIT_NODE_PARAMS);
    fn cuGraphExternalSemaphoresWaitNodeSetParams(CUgraphNode, *const CUDA_EXT_SEM_WAIT_NODE_PARAMS);
    fn cuGraphNodeGetLocalId(CUgraphNode, *mut c_uint);
    fn cuGraphNodeGetToolsId(CUgraphNode, *mut c_ulonglong);
    fn cuStreamBeginCaptureToCig(CUstream, *mut CUstreamCigCaptureParams);
    fn cuStreamBeginRecaptureToGraph(CUstream, CUstreamCaptureMode, CUgraph, CUgraphRecaptureCallback, *mut c_void);
    fn cuStreamEndCaptureToCig(CUstream);
}
