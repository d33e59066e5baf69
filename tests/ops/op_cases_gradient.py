"""Rows for the gradient checks alone: operators and modes that the tables of values do not differentiate."""
from __future__ import annotations

from typing import Any

import numpy as np

from .op_cases import Case, f, i

MORE: list[Case] = []


def case(name: str, inputs: Any, *, train: bool = False, **attrs: Any) -> None:
    """Add a row; it has no expected value."""
    MORE.append(Case(name, tuple(np.asarray(x) for x in inputs), lambda *xs: [], attrs, True, 0.0, train))


for _name in ("log_sigmoid", "mish", "softrelu"):
    case(_name, [f(2, 3)])
    case(_name, [np.array([-30.0, -1, 0, 1, 30])])
for _kind in ("log_sigmoid", "mish", "softsign"):
    case("Activation", [f(2, 3)], act_type=_kind)
case("LeakyReLU", [f(2, 3)], act_type="selu")
case("LeakyReLU", [np.array([-800.0, -1, 1, 800])], act_type="selu")
case("LeakyReLU", [f(2, 3)], act_type="rrelu", lower_bound=0.1, upper_bound=0.3)
case("LeakyReLU", [f(2, 3)], act_type="rrelu", lower_bound=0.1, upper_bound=0.3, train=True)
case("LeakyReLU", [f(2, 3, 2), f(3)], act_type="prelu")
case("Dropout", [f(3, 4)], p=0.4, train=True)
case("Dropout", [f(3, 4)], p=0.4, axes=(0,), train=True)
case("_sample_uniform", [f(3), f(3, low=2.5, high=4.0)], shape=(2,))
case("_sample_normal", [f(3), f(3, low=0.5)], shape=(2,))
case("_shuffle", [f(5, 2)])
case("amp_cast", [f(4)], dtype="float64")
case("amp_multicast", [f(2), f(3)], num_outputs=2)
case("_npi_broadcast_to", [f(1, 3)], shape=(2, 3))
_MASK = np.array([[1.0, 0, 1], [0, 0, 1]])
case("_npi_where_lscalar", [_MASK, f(2, 3)], scalar=2.5)
case("_npi_where_rscalar", [_MASK, f(2, 3)], scalar=2.5)
case("_npi_ldexp", [f(2, 3), f(3)])
case("_npi_ldexp_scalar", [f(2, 3)], scalar=1.5)
case("_npi_rldexp_scalar", [f(2, 3)], scalar=1.5)
case("_np_diag", [f(3)])
case("_np_diag", [f(3, 4)], k=1)
case("prod", [np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0], [1.5, 2.0, -1.0]])], axis=1)
case("_np_prod", [f(7, 3)], axis=0)
case("topk", [f(3, 5)], k=2, ret_typ="both", axis=0)
case("topk", [f(3, 5)], k=3, ret_typ="value", is_ascend=True, axis=None)
case("sort", [f(3, 5)], axis=0, is_ascend=False)
case("softmax", [f(3, 4), np.array([2, 4, 1], np.int32)], use_length=True)
case("log_softmax", [f(3, 4)], temperature=0.5)
case("UpSampling", [f(1, 2, 3, 3), f(1, 1, 6, 6)], scale=2, sample_type="nearest", num_args=2)
for _mode in ("size", "like", "to_even_up"):
    case("_contrib_BilinearResize2D", [f(1, 2, 3, 5)] + ([f(1, 1, 4, 7)] if _mode == "like" else []), mode=_mode,
         height=5, width=4, align_corners=False)
case("BatchNorm", [f(3, 2, 4), f(2, low=0.5), f(2), f(2), f(2, low=0.5)], fix_gamma=False, output_mean_var=True,
     train=True)
case("CTCLoss", [f(5, 2, 4), i(2, 2, low=1, high=4, dtype="float32")])
case("gamma", [np.array([-0.5, -1.7, 0.3, 4.2])])
case("gammaln", [np.array([-0.5, -1.7, 0.3, 4.2])])

# ---- images (height, width, channels) of 0 to 1
_picture = np.abs(f(3, 4, 3)) / 3 + 0.1
for _name in ("flip_left_right", "flip_top_bottom", "random_flip_left_right", "random_flip_top_bottom"):
    case(f"_image_{_name}", [_picture])
for _name in ("brightness", "contrast", "saturation", "hue"):
    case(f"_image_random_{_name}", [_picture], min_factor=0.3, max_factor=0.9)
case("_image_random_color_jitter", [_picture], brightness=0.3, contrast=0.2, saturation=0.4, hue=0.1)
case("_image_adjust_lighting", [_picture], alpha=(0.01, 0.02, -0.01))
case("_image_random_lighting", [_picture], alpha_std=0.05)
case("_image_normalize", [f(3, 4, 3)], mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4))
case("_image_resize", [_picture], size=(5, 3))
case("_image_crop", [_picture], x=1, y=0, width=2, height=3)
case("_cvimresize", [_picture], w=5, h=4)

# ---- boxes, matrices
_rng = np.random.default_rng(8)
_left = _rng.uniform(0, 0.6, (6, 2))
_boxes = np.concatenate([_left, _left + _rng.uniform(0.2, 0.4, (6, 2))], -1)
_spd = (lambda a: a @ a.swapaxes(-1, -2) + np.eye(4))(_rng.uniform(-1, 1, (2, 4, 4)))
case("_contrib_box_nms", [np.concatenate([f(6, 1), _rng.uniform(0.1, 1, (6, 1)), _boxes], -1)], overlap_thresh=0.2)
for _name in ("potrf", "potri", "inverse", "det", "slogdet", "syevd", "sumlogdiag"):
    case(f"_linalg_{_name}", [_spd])
case("_linalg_inverse", [_spd[0] + np.triu(np.ones((4, 4)))])
case("_npi_eigh", [_spd])
case("_npi_det", [_spd])
case("_npi_slogdet", [_spd])
case("_sparse_retain", [f(5, 3), np.array([0, 3], "int64")])
for _lower in (True, False):
    for _transpose in (True, False):
        case("_linalg_trsm", [_spd, f(2, 4, 3)], lower=_lower, transpose=_transpose)
case("_linalg_trsm", [_spd, f(2, 3, 4)], rightside=True, alpha=2.0)

# ---- regions, grids, attention
_rois = np.array([[0, 0.3, 0.4, 5.2, 6.1], [1, 2.2, 1.1, 3.3, 4.4], [1, -1.2, -2.3, 9.4, 3.2]])
for _ratio in (2, -1):
    case("_contrib_ROIAlign", [f(2, 2, 7, 8), _rois], pooled_size=(2, 3), spatial_scale=0.8, sample_ratio=_ratio)
case("ROIPooling", [f(2, 2, 7, 8), _rois], pooled_size=(2, 3), spatial_scale=0.8)
case("BilinearSampler", [f(1, 2, 4, 5), f(1, 2, 3, 2, low=-1.2, high=1.2)])
case("SpatialTransformer", [f(1, 2, 4, 5), f(1, 6, low=-0.7, high=0.7)], target_shape=(3, 2), transform_type="affine",
     sampler_type="bilinear")

case("_sample_exponential", [f(3, low=0.5)], shape=(2,))
case("_sample_multinomial", [np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])], shape=4, get_prob=True)
case("_contrib_SyncBatchNorm", [f(3, 2, 4), f(2, low=0.5), f(2), f(2), f(2, low=0.5)], fix_gamma=False, train=True)

for _mode, _gates in (("rnn_relu", 1), ("rnn_tanh", 1), ("lstm", 4), ("gru", 3)):
    _states = [f(2, 1, 2) for _ in range(2 if _mode == "lstm" else 1)]
    case("RNN", [f(2, 1, 2), f(2 * _gates * 2 * 6) / 2, *_states], mode=_mode, state_size=2, num_layers=1,
         bidirectional=True, state_outputs=True)
case("_rnn_param_concat", [f(6), f(4)], dim=0)

# ---- deformable convolutions: places between the pixels, some beyond the image
_offset = _rng.uniform(0.1, 0.9, (1, 16, 3, 3)) + _rng.integers(-2, 2, (1, 16, 3, 3))
case("_contrib_DeformableConvolution", [f(1, 2, 4, 4), _offset, f(2, 2, 2, 2), f(2)], kernel=(2, 2), num_filter=2,
     num_deformable_group=2)
case("_contrib_ModulatedDeformableConvolution", [f(1, 2, 4, 4), _offset, f(1, 8, 3, 3), f(2, 1, 2, 2), f(2)],
     kernel=(2, 2), num_filter=2, num_deformable_group=2, num_group=2)
case("_np_squeeze", [f(1, 3, 1)], axis=(0,))
case("_np_diagflat", [f(2, 2)], k=-1)
case("_npi_delete", [f(3, 4)], int_ind=1, axis=1)
case("_npi_delete", [f(6)], start=0, stop=6, step=2)
case("_npi_insert_scalar", [f(3, 4), f(3)], int_ind=1, axis=1)
case("_npi_insert_slice", [f(6), f(2)], start=1, stop=3)
case("_npi_insert_tensor", [f(3, 4), f(3, 2), i(2, low=0, high=3)], axis=1)
case("_npi_ediff1d", [f(2, 3), f(2)], to_end_arr_given=True, to_begin_scalar=1.0)
case("_npi_hsplit", [f(2, 4)], sections=2)
case("_npi_dsplit", [f(1, 2, 4)], indices=(0, 1))
case("_npi_percentile", [f(3, 7)], q_scalar=33.0, axis=1)
case("_npi_polyval", [f(3), f(2, 4)])
case("_npi_solve", [_spd, f(*_spd.shape[:-1], 2)])
case("_npi_eigvalsh", [_spd])
case("_npi_tensorinv", [_spd.reshape(-1, *_spd.shape[-2:])[0].reshape(_spd.shape[-1], _spd.shape[-1])], ind=1)
case("_npi_tensorsolve", [_spd.reshape(-1, *_spd.shape[-2:])[0], f(_spd.shape[-1])])

# ---- moved and multiplied patches, pooled positions, densities, streams of events
for _is_multiply in (True, False):
    case("Correlation", [f(1, 2, 4, 5), f(1, 2, 4, 5) + 4.0], kernel_size=1, max_displacement=1, pad_size=1,
         is_multiply=_is_multiply)
case("Crop", [f(1, 2, 5, 6)], num_args=1, offset=(1, 2), h_w=(3, 3))
case("im2col", [f(1, 2, 4, 5)], kernel=(2, 3), stride=(2, 1), dilate=(1, 1), pad=(1, 0))
case("col2im", [f(1, 12, 4)], output_size=(3, 4), kernel=(2, 3), stride=(1, 1), pad=(0, 0))
case("_contrib_BatchNormWithReLU", [f(3, 2, 4), f(2, low=0.5), f(2), f(2), f(2, low=0.5)], fix_gamma=False, train=True)
case("_contrib_PSROIPooling", [f(2, 8, 6, 7), _rois], spatial_scale=0.8, output_dim=2, pooled_size=2)
case("_contrib_DeformablePSROIPooling", [f(2, 8, 6, 7), _rois, f(3, 2, 2, 2) / 10], spatial_scale=0.8, output_dim=2,
     group_size=2, pooled_size=2, part_size=2,
     sample_per_part=2, trans_std=0.1)
case("_contrib_RROIAlign", [f(2, 2, 6, 7), np.array([[0, 3.1, 2.9, 3.3, 2.2, 20.0], [1, 2.7, 3.4, 4.1, 2.6, -35.0]])],
     pooled_size=(2, 3), spatial_scale=0.9, sampling_ratio=2)
case("_contrib_count_sketch", [f(3, 5), np.array([[0.0, 2, 1, 2, 0]]), np.array([[1.0, -1, 1, 1, -1]])], out_dim=3)
case("_contrib_fft", [f(3, 5)])
case("_contrib_ifft", [f(3, 8)])
case("_identity_with_attr_like_rhs", [f(2, 3), f(2, 3)])
case("_linalg_extracttrian", [f(2, 4, 4)], offset=-1)
case("_linalg_maketrian", [f(2, 6)], lower=False)
case("_linalg_gelqf", [f(3, 5)])
case("RMSNorm", [f(3, 4), f(4)])
case("RMSNorm", [f(3, 4, 2), f(4)], axis=1, eps=0.1)
case("_npi_dft", [f(3, 4), f(3, 4)])
case("_npi_dft", [f(3, 4), f(3, 4)], axis=0, inverse=True)
case("_npi_rdft", [f(3, 5)])
case("_npi_rdft", [f(4, 3)], axis=0)
case("_npi_irdft", [f(3, 4), f(3, 4)], n=6)
case("_npi_irdft", [f(2, 3), f(2, 3)], axis=0, n=3)
for _shape in ((3, 3), (4, 2), (2, 4)):
    case("_npi_qr", [f(*_shape)])
case("fill_element_0index", [f(3, 4), f(3), i(3, low=0, high=4, dtype="float64")])
case("_scatter_elemwise_div", [f(2, 3), f(2, 3, low=0.5)])
case("_scatter_minus_scalar", [f(2, 3)], scalar=1.5)
case("_scatter_plus_scalar", [f(2, 3)], scalar=1.5)
case("cast_storage", [f(2, 3)])
_positive = np.abs(f(2, 4)) + 0.2
for _is_log in (False, True):
    case("_random_pdf_uniform", [np.full((2, 3), 0.6), np.array([0.1, 0.2]), np.array([1.1, 1.4])], is_log=_is_log)
    case("_random_pdf_normal", [f(2, 4), f(2), f(2, low=0.5)], is_log=_is_log)
    case("_random_pdf_exponential", [_positive, f(2, low=0.5)], is_log=_is_log)
    case("_random_pdf_gamma", [_positive, f(2, low=0.5), f(2, low=0.5)], is_log=_is_log)
    case("_random_pdf_poisson", [i(2, 4, low=0, high=5, dtype="float64"), f(2, low=0.5)], is_log=_is_log)
    case("_random_pdf_negative_binomial", [i(2, 4, low=0, high=5, dtype="float64"), f(2, low=1.5, high=4.0),
                                           f(2, low=0.3, high=0.7)], is_log=_is_log)
    case("_random_pdf_generalized_negative_binomial",
         [i(2, 4, low=0, high=5, dtype="float64"), f(2, low=0.5), f(2, low=0.5)], is_log=_is_log)
    case("_random_pdf_dirichlet", [np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]), f(2, 3, low=0.5)], is_log=_is_log)
case("_contrib_hawkesll", [f(2, 3, low=0.5), f(3, low=0.2), f(3, low=0.5), f(2, 3, low=0.1), np.abs(f(2, 4)) + 0.1,
                           i(2, 4, low=0, high=3, dtype="int32"),
                           np.array([4.0, 3.0]), np.array([9.0, 8.0])])
