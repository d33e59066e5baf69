package @Name@;

# The model @name@ in Perl: my $model = @Name@->new("@name@.weights"); my ($y) = $model->run($x). Arrays are references
# to flat lists in C order, or to lists of lists; results are flat.
use strict;
use warnings FATAL => qw(numeric pack uninitialized);
use Carp qw(croak);
use File::Basename qw(dirname);
use FFI::Platypus 1.00;
use FFI::Platypus::Buffer qw(scalar_to_buffer);

our @INPUTS = (
@INPUTS@);
our @OUTPUTS = (
@OUTPUTS@);

my $here = dirname(__FILE__);
my ($library) = grep { -e } map { "$_/lib@name@.so" } $here, "$here/..";
croak "lib@name@.so is neither in $here nor above it: make builds it" unless defined $library;
my $ffi = FFI::Platypus->new(api => 1, lib => $library);
$ffi->attach(['@name@_load' => '_load'] => ['string', 'int*'] => 'opaque');
$ffi->attach(['@name@_free' => '_free'] => ['opaque'] => 'void');
$ffi->attach(['@name@_set_threads' => '_set_threads'] => ['opaque', 'int'] => 'int');
$ffi->attach(['@name@_run' => '_run'] => ['opaque', 'opaque[@COUNT_IN@]', 'opaque[@COUNT_OUT@]'] => 'int');
$ffi->attach(['@name@_error_text' => '_error_text'] => ['int'] => 'string');

# The model with the weights of a file; each call uses so many threads.
sub new {
    my ($class, $path, $threads) = @_;
    my $code = 0;
    my $handle = _load($path, \$code);
    croak "$path: " . _error_text($code) unless defined $handle;
    my $self = bless {handle => $handle}, $class;
    $code = _set_threads($handle, $threads // 1);
    croak '@name@_set_threads: ' . _error_text($code) if $code;
    return $self;
}

sub DESTROY {
    my ($self) = @_;
    _free(delete $self->{handle}) if defined $self->{handle};
}

# Elements of nested lists, whose lengths are checked.
sub _elements {
    my ($x, $array, @shape) = @_;
    return @$x if @shape < 2;
    for my $part (@$x) {
        croak "$array->{name} has shape (@{$array->{shape}}), got lists of other lengths"
            if ref $part ne 'ARRAY' || @$part != $shape[1];
    }
    return map { _elements($_, $array, @shape[1 .. $#shape]) } @$x;
}

sub _packed {
    my ($x, $array) = @_;
    croak "$array->{name} is a reference to a list of numbers" unless ref $x eq 'ARRAY';
    my @shape = @{$array->{shape}};
    my $nested = @$x && ref $x->[0];
    croak "$array->{name} has shape (@shape), got " . scalar(@$x) . ' lists' if $nested && (!@shape || @$x != $shape[0]);
    my @values = $nested ? _elements($x, $array, @shape) : @$x;
    croak "$array->{name} has $array->{size} elements, got " . scalar(@values) if @values != $array->{size};
    return pack "$array->{pack}*", @values;
}

# Computes the outputs from the inputs: as many references as the model has outputs.
sub run {
    my ($self, @given) = @_;
    croak '@name@ has ' . scalar(@INPUTS) . ' inputs, got ' . scalar(@given) if @given != @INPUTS;
    my @inputs = map { _packed($given[$_], $INPUTS[$_]) } 0 .. $#INPUTS;
    my @outputs = map { "\0" x length(pack $_->{pack}, 0) x $_->{size} } @OUTPUTS;
    my $code = _run($self->{handle}, [map { (scalar_to_buffer $_)[0] } @inputs],
                    [map { (scalar_to_buffer $_)[0] } @outputs]);
    croak '@name@_run: ' . _error_text($code) if $code;
    my @results = map { [unpack "$OUTPUTS[$_]{pack}*", $outputs[$_]] } 0 .. $#OUTPUTS;
    return wantarray ? @results : $results[0];
}

1;
