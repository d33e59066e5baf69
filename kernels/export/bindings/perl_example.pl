# Loads @name@.weights, runs the model once and prints the first numbers of each output.
#
#     make && perl -I. example.pl ../@name@.weights [threads [input.bin ... [output.bin ...]]]
#
# input.bin: an input's elements as they are in memory, in C order (NumPy: x.tofile("input.bin")); zeros without it.
# output.bin: where an output goes, in the same form.
use strict;
use warnings;
use @Name@;

sub argument {
    my ($path, $array) = @_;
    return [(0) x $array->{size}] unless defined $path;
    open my $file, '<:raw', $path or die "$path: $!\n";
    local $/;
    return [unpack "$array->{pack}*", scalar <$file>];
}

sub result {
    my ($path, $array, $values) = @_;
    my $last = $#$values < 9 ? $#$values : 9;
    print "$array->{name}: @$values[0 .. $last]\n";
    return unless defined $path;
    open my $file, '>:raw', $path or die "$path: $!\n";
    print $file pack("$array->{pack}*", @$values);
    close $file or die "$path: $!\n";
}

my ($path, $threads, @files) = @ARGV;
my $done = eval {
    my $model = @Name@->new($path // '../@name@.weights', $threads // 1);
    my @given = map { argument($files[$_], $@Name@::INPUTS[$_]) } 0 .. $#@Name@::INPUTS;
    my @results = $model->run(@given);
    result($files[@given + $_], $@Name@::OUTPUTS[$_], $results[$_]) for 0 .. $#results;
    1;
};
die $@ unless $done;
