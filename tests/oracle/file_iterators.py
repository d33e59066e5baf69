"""Iterators over files, run by record_file_iterators.py with MXNet and by tests/io/test_file_iterators.py with this
library.

``write(folder, encode)`` makes the files; every case gets the package and the folder and gives an iterator.
"""
import struct

import numpy as np


def picture(i):
    """A small image of its own size."""
    return ((np.indices((20 + i, 24)).sum(0) * 5 + i)[..., None] * np.array([1, 2, 3]) % 256).astype("uint8")


def write(folder, recordio):
    """Tables, MNIST's format, images as PNG, a record file and a list."""
    table = np.arange(28).reshape(7, 4) * 0.5
    (folder / "data.csv").write_text("".join(",".join(f"{v:g}" for v in row) + "\n" for row in table))
    (folder / "label.csv").write_text("".join(f"{i},{2 * i}\n" for i in range(7)))
    (folder / "rows.svm").write_text("1.0 0:0.5 2:1.2\n-2.0\n-3.0 0:0.6 1:2.4 2:1.2\n4 2:-1.2\n")
    (folder / "labels.svm").write_text("1.0\n-2.0 0:0.125\n-3.0 2:1.2\n4 1:1.0 2:-1.2\n")
    digits = (np.arange(10 * 28 * 28) % 251).astype("uint8")
    (folder / "digits").write_bytes(struct.pack(">iiii", 2051, 10, 28, 28) + digits.tobytes())
    (folder / "kinds").write_bytes(struct.pack(">ii", 2049, 10) + np.arange(10).astype("uint8").tobytes())
    with recordio.MXIndexedRecordIO(str(folder / "p.idx"), str(folder / "p.rec"), "w") as rec:
        for i in range(7):
            packed = recordio.pack_img(recordio.IRHeader(0, float(i), i, 0), picture(i), img_fmt=".png")
            rec.write_idx(i, packed)
            (folder / f"{i}.png").write_bytes(recordio.unpack(packed)[1])
    with recordio.MXRecordIO(str(folder / "b.rec"), "w") as rec:
        for i, raw in enumerate(RAW_LABELS):
            rec.write(recordio.pack_img(recordio.IRHeader(0, np.array(raw, "float32"), i, 0), picture(3 * i),
                                        img_fmt=".png"))
    (folder / "b.lst").write_text("".join(f"{i}\t2\t5\t{i}\t.25\t.25\t.75\t.75\t{i}.png\n"
                                          for i in range(len(RAW_LABELS))))
    (folder / "p.lst").write_text("".join(f"{i}\t{i}\t{2 * i}\t{i}.png\n" for i in range(7)))


RAW_LABELS = [[2, 5, 0, .1, .1, .5, .5], [2, 5, 1, .2, .3, .9, .8, 2, .1, .1, .3, .3], [4, 5, 9, 9, 0, .1, .1, .5, .5],
              [2, 5, 1, .2, .3, .9, .8, 2, .1, .1, .3, .3, 3, .6, .6, .8, .9], [2, 6, 1, .2, .3, .9, .8, 7]]
BOXES = [[[2, 5, 0, .1, .1, .5, .5], "0.png"], [[2, 5, 1, .2, .3, .9, .8, 2, .1, .1, .3, .3], "1.png"],
         [[4, 5, 9, 9, 0, .1, .1, .5, .5, 3, .5, .5, .4, .6], "3.png"]]


def csv(**kwargs):
    return lambda mx, d: mx.io.CSVIter(data_csv=f"{d}/data.csv", data_shape=(2, 2),
                                       **{k: f"{d}/{v}" if k == "label_csv" else v for k, v in kwargs.items()})


def svm(**kwargs):
    return lambda mx, d: mx.io.LibSVMIter(data_libsvm=f"{d}/rows.svm", data_shape=(3,),
                                          **{k: f"{d}/{v}" if k == "label_libsvm" else v for k, v in kwargs.items()})


def mnist(**kwargs):
    return lambda mx, d: mx.io.MNISTIter(image=f"{d}/digits", label=f"{d}/kinds", shuffle=False, silent=True, **kwargs)


def records(kind="ImageRecordIter", data_shape=(3, 16, 16), **kwargs):
    return lambda mx, d: getattr(mx.io, kind)(path_imgrec=f"{d}/p.rec", data_shape=data_shape, batch_size=3,
                                              preprocess_threads=1, verbose=False,
                                              **{k: f"{d}/{v}" if k.startswith("path") else v
                                                 for k, v in kwargs.items()})


def detection(data_shape=(3, 16, 16), **kwargs):
    return lambda mx, d: mx.io.ImageDetRecordIter(path_imgrec=f"{d}/b.rec", data_shape=data_shape, batch_size=2,
                                                  preprocess_threads=1, verbose=False,
                                                  **{k: f"{d}/{v}" if k.startswith("path") else v
                                                     for k, v in kwargs.items()})


def pictures(**kwargs):
    return lambda mx, d: mx.image.ImageIter(3, (3, 16, 16),
                                            **{k: f"{d}/{v}" if k.startswith("path") else v for k, v in kwargs.items()})


def boxes(**kwargs):
    return lambda mx, d: mx.image.ImageDetIter(2, (3, 16, 16), imglist=[list(b) for b in BOXES], path_root=str(d),
                                               **kwargs)


CASES = {
    "csv": csv(batch_size=3), "csv_not_rounded": csv(batch_size=3, round_batch=False), "csv_whole": csv(batch_size=7),
    "csv_int": csv(batch_size=3, dtype="int32"),
    "csv_labels": csv(batch_size=2, label_csv="label.csv", label_shape=(2,)),
    "csv_names": csv(batch_size=3, data_name="x", label_name="y"),
    "svm": svm(batch_size=3), "svm_labels": svm(batch_size=3, label_libsvm="labels.svm", label_shape=(3,)),
    "svm_even": svm(batch_size=2),
    "mnist": mnist(batch_size=4), "mnist_flat": mnist(batch_size=4, flat=True),
    "mnist_part": mnist(batch_size=3, num_parts=2, part_index=1),
    "records": records(), "records_normalized": records(resize=18, mean_r=10, mean_g=20, mean_b=30, std_r=2, std_g=3,
                                                        std_b=4, scale=.5),
    "records_mirror": records(mirror=True, path_imgidx="p.idx"), "records_gray": records(data_shape=(1, 16, 16)),
    "records_uint8": records("ImageRecordUInt8Iter"),
    "records_int8": records("ImageRecordInt8Iter"), "records_list": records(path_imglist="p.lst", label_width=2),
    "records_small": records(data_shape=(3, 40, 40)),
    "records_resize": records(data_shape=(3, 40, 40), resize=50),
    "records_pad": records(data_shape=(3, 40, 40), pad=12, fill_value=7),
    "records_crop": records(max_crop_size=10, min_crop_size=10),
    "records_turned": records(rotate=30, fill_value=9),
    "records_scaled": records(max_random_scale=1.5, min_random_scale=1.5),
    "records_smallest": records(max_random_scale=.5, min_random_scale=.5, min_img_size=17),
    "records_no_part": records(random_resized_crop=True, min_random_area=2, max_random_area=2.1),
    "detection": detection(), "detection_padded": detection(label_pad_width=20, label_pad_value=7),
    "detection_list": detection(path_imglist="b.lst"),
    "detection_mirror": detection(rand_mirror_prob=1), "detection_gray": detection((1, 16, 16)),
    "detection_not_rounded": detection(round_batch=False),
    "detection_normalized": detection(resize=18, mean_r=10, mean_g=20, std_r=2, std_b=4, scale=.5),
    "detection_forced": detection((3, 40, 30)),
    "detection_fit": detection((3, 40, 30), resize_mode="fit", mean_r=10, fill_value=9),
    "detection_shrink": detection((3, 26, 40), resize_mode="shrink"),
    "pictures": pictures(path_imgrec="p.rec"),
    "pictures_normalized": pictures(path_imgrec="p.rec", path_imgidx="p.idx", resize=18, mean=True, std=True),
    "pictures_discard": pictures(path_imgrec="p.rec", path_imgidx="p.idx", last_batch_handle="discard"),
    "pictures_roll_over": pictures(path_imgrec="p.rec", path_imgidx="p.idx", last_batch_handle="roll_over"),
    "pictures_list_file": pictures(path_imglist="p.lst", path_root="", label_width=2),
    "pictures_list": pictures(imglist=[[1.0, "0.png"], [[2.0], "1.png"], [3.0, "3.png"]], path_root=""),
    "pictures_part": pictures(path_imgrec="p.rec", path_imgidx="p.idx", num_parts=2, part_index=1),
    "boxes": boxes(), "boxes_normalized": boxes(mean=True, std=True, resize=18), "boxes_crop": boxes(rand_crop=1),
    "boxes_mirror": boxes(rand_mirror=True),
}


def outline(make, package, folder):
    """Three epochs of an iterator: shapes, dtypes, means of samples, labels, padding."""
    it = make(package, folder)
    out = {"data": [[n, list(s)] for n, s in it.provide_data], "label": [[n, list(s)] for n, s in it.provide_label],
           "batches": []}
    for epoch in range(3):
        for b in it:
            x = b.data[0].asnumpy()
            values = x.astype("float64").reshape(len(x), -1)
            out["batches"].append([epoch, x.dtype.name, values.mean(1).round(3).tolist(),
                                   float(values[0, -3].round(3)), b.label[0].asnumpy().round(5).tolist(), b.pad])
        it.reset()
    return out
